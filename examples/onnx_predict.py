"""Label new photographs with onnxruntime alone: no unbend, no torch.

unbend export runs/photos --format onnx -o model.onnx
python onnx_predict.py model.onnx new/*.jpg
"""

import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
_, _, height, width = session.get_inputs()[0].shape
threshold = float(session.get_modelmeta().custom_metadata_map["outlier_threshold"])

for path in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    pixels = np.asarray(ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC))
    samples = pixels.transpose(2, 0, 1)[None]  # (1, 3, height, width), bytes
    probabilities, label, outlier = session.run(None, {"samples": samples})
    mark = "  outlier" if outlier[0] > threshold else ""
    print(f"{path}: cluster {label[0]}, probability {probabilities.max():.2f}{mark}")
