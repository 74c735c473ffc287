"""Numbers published by others; none of them were measured here.

Sources: Tables 2-8 of the MLC paper, which itself quotes the other methods' papers.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ABLATION", "DEEP", "IMBALANCED", "MINUTES", "SEEDS", "SUBSPACE", "Published"]


class Published(NamedTuple):
    """ACC and NMI on a data set."""

    method: str
    data: str
    acc: float
    nmi: float | None = None


# Table 2
SUBSPACE = {
    ("EnSC", "Z_TCR"): (0.722, 0.679),
    ("EnSC", "Z_MLC"): (0.815, 0.792),
    ("SSC-OMP", "Z_TCR"): (0.678, 0.645),
    ("SSC-OMP", "Z_MLC"): (0.784, 0.763),
    ("MLC", "X"): (0.863, 0.783),
}

# Tables 3 and 4, by data set
DEEP = {
    "cifar10": [
        Published("SCAN-SimCLR", "CIFAR-10", 0.876, 0.787),
        Published("GCC-SimCLR", "CIFAR-10", 0.856, 0.764),
        Published("NNM-SimCLR", "CIFAR-10", 0.843, 0.748),
        Published("IMC-SwAV", "CIFAR-10", 0.891, 0.811),
        Published("NMCE-TCR", "CIFAR-10", 0.830, 0.761),
        Published("MLC-TCR", "CIFAR-10", 0.863, 0.783),
        Published("SCAN-MoCoV2", "CIFAR-10", 0.874, 0.786),
        Published("SPICE-MoCoV2", "CIFAR-10", 0.918, 0.850),
        Published("MLC-MoCoV2", "CIFAR-10", 0.922, 0.855),
    ],
    "cifar20": [
        Published("SCAN-SimCLR", "CIFAR-20", 0.468, 0.459),
        Published("GCC-SimCLR", "CIFAR-20", 0.472, 0.472),
        Published("NNM-SimCLR", "CIFAR-20", 0.477, 0.484),
        Published("IMC-SwAV", "CIFAR-20", 0.490, 0.503),
        Published("NMCE-TCR", "CIFAR-20", 0.437, 0.488),
        Published("MLC-TCR", "CIFAR-20", 0.522, 0.546),
        Published("SCAN-MoCoV2", "CIFAR-20", 0.455, 0.472),
        Published("SPICE-MoCoV2", "CIFAR-20", 0.535, 0.565),
        Published("MLC-MoCoV2", "CIFAR-20", 0.583, 0.596),
    ],
    "cifar100": [
        Published("SCAN-SimCLR", "CIFAR-100", 0.343, 0.557),
        Published("IMC-SwAV", "CIFAR-100", 0.439, 0.583),
        Published("MLC-TCR", "CIFAR-100", 0.494, 0.683),
    ],
    "tinyimagenet": [
        Published("GCC-SimCLR", "TinyImageNet-200", 0.138, 0.347),
        Published("IMC-SwAV", "TinyImageNet-200", 0.282, 0.526),
        Published("SPICE-MoCoV2", "TinyImageNet-200", 0.305, 0.449),
        Published("MLC-TCR", "TinyImageNet-200", 0.335, 0.675),
    ],
}

# Table 5, CIFAR-100 on two RTX 3090: minutes of stages I, II, III, and in all
MINUTES = {
    "SCAN-SimCLR": (308.3, 33.3, 54.7, 396.3),
    "IMC-SwAV": (529.4, None, None, 529.4),
    "MLC-TCR": (266.7, 17.7, None, 284.4),
}

# Table 6, with the balanced accuracy of Tables 3 and 4 before it
IMBALANCED = {
    "SCAN": {"CIFAR-10": (0.876, 0.629), "CIFAR-100": (0.343, 0.311)},
    "IMC-SwAV": {"CIFAR-10": (0.891, 0.657), "CIFAR-100": (0.439, 0.382)},
    "MLC": {"CIFAR-10": (0.863, 0.800), "CIFAR-100": (0.494, 0.461)},
}

# Table 7, CIFAR-10
ABLATION = {"full": 0.863, "random": 0.200, "ensc": 0.734, "views": 0.800}

# Table 8, CIFAR-10: mean and deviation over ten seeds
SEEDS = {
    ("MLC", "ACC"): (0.845, 0.0024),
    ("MLC", "NMI"): (0.766, 0.0028),
    ("NMCE", "ACC"): (0.796, 0.0369),
    ("NMCE", "NMI"): (0.702, 0.0249),
}
