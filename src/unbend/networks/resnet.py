"""ResNet-18, in its variants for small images and for ImageNet.

He et al., "Deep residual learning for image recognition", CVPR 2016. Parameter names follow the
common convention (``conv1``, ``bn1``, ``layer1.0.conv1`` ...), so that public checkpoints load.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ResNet18"]


class _Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.downsample(x))


class ResNet18(nn.Module):
    """ResNet-18 without its classifier; output (b, 8 · width) after average pooling.

    Parameters
    ----------
    channels : int
        Channels of the images.
    width : int, default=64
        Channels of the first stage.
    small_images : bool, default=True
        The CIFAR variant: a 3×3 stem of stride 1 and no max-pooling. Otherwise the ImageNet
        variant: a 7×7 stem of stride 2 and max-pooling.
    """

    def __init__(self, channels: int = 3, width: int = 64, small_images: bool = True) -> None:
        super().__init__()
        if small_images:
            self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
            self.maxpool: nn.Module = nn.Identity()
        else:
            self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(_Block(width, width, 1), _Block(width, width, 1))
        self.layer2 = nn.Sequential(_Block(width, 2 * width, 2), _Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(
            _Block(2 * width, 4 * width, 2), _Block(4 * width, 4 * width, 1)
        )
        self.layer4 = nn.Sequential(
            _Block(4 * width, 8 * width, 2), _Block(8 * width, 8 * width, 1)
        )
        self.out_features = 8 * width
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))
