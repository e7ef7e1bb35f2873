"""The mean of the weights of models that were trained from one another, as a model folder.

python mean.py OUT MODEL MODEL...
"""

import sys
from dataclasses import replace
from pathlib import Path

from transduce.model.weights import average, load_weights, weights_of
from transduce.model_folder import load_model, save_model

out, *paths = map(Path, sys.argv[1:])
folders = [load_model(path) for path in paths]
load_weights(folders[0].model, average([weights_of(folder.model) for folder in folders]), out)
save_model(
    out,
    replace(folders[0], card={**folders[0].card, "weights": f"the mean of {len(paths)} models"}),
)
