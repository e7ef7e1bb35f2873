// The words of the page. Symbols and section numbers are those of "Attention Is All You Need" (Vaswani et al. 2017).

export const TEXTS = {
  sentence: {
    title: "One step at a time",
    short: "The sentence",
    paper: "section 3.1",
    text: [
      "A Transformer writes its answer piece by piece. At every step it reads the whole source and all that it has written so far, and asks: what comes next? Move through the steps with the bar above, or with the arrow keys.",
    ],
    lm: [
      "A language model reads piece by piece. After each it asks: what comes next? Move through the steps with the bar above, or with the arrow keys.",
    ],
  },
  tokens: {
    title: "Pieces and their numbers",
    short: "Pieces",
    paper: "section 5.1",
    text: [
      "A model reads numbers. The text is cut into pieces from a fixed list, and each piece has a place in that list: its id. ## marks a piece that continues a word. [SOS] is where writing starts, [EOS] is where a sentence ends.",
    ],
  },
  embedding: {
    title: "A vector for each piece, and its position",
    short: "Vectors + positions",
    paper: "sections 3.4, 3.5",
    text: [
      "Each id is looked up in a table and gives a vector of d_model numbers, multiplied by \u221ad_model. Attention by itself does not see order, so a vector that depends only on the position is added. With sines, even dimensions hold sin(pos / 10000^(2i/d_model)) and odd ones cos of the same.",
    ],
  },
  qkv: {
    title: "Query, key, value",
    short: "Query, key, value",
    paper: "section 3.2.1",
    text: [
      "Each head turns every vector into three short ones: a query q (what am I looking for?), a key k (what am I?) and a value v (what do I give?). A query and a key are multiplied element by element; the products add up to one number, the score.",
    ],
  },
  scores: {
    title: "From scores to attention, in five stages",
    short: "Scores in five stages",
    paper: "Eq. 1",
    text: [
      "softmax(QK\u1d40 / \u221ad_k) V. Each row is a piece that looks (a query), each column a piece that is looked at (a key). A row of the decoder is named \u201camo \u2192 molto\u201d: the piece it read last, and the one it wrote next. Scores are divided by \u221ad_k so that they do not grow with the size of the head; in the decoder what lies in the future is masked; softmax turns each row into weights that add up to 1; with these the values are mixed.",
    ],
  },
  heads: {
    title: "All heads at a glance",
    short: "All heads",
    paper: "section 3.2.2",
    text: [
      "Every small square is one head of one layer: rows look, columns are looked at, and the scale of colours says how much. The words below each say what the head mostly looks at here, and how much of its weight goes there: the mean over all rows, in the decoder\u2019s self-attention without the first, which can only look at itself. \u201cNeeded\u201d is the piece without which the next one would be least likely. Press a head to choose it for the other stations.",
    ],
  },
  concat: {
    title: "The heads speak together",
    short: "Concat and Wᴼ",
    paper: "section 3.2.2",
    text: [
      "What the heads found is laid side by side (concat) and multiplied by W\u1d3c. The length of what each head wrote into a position says how much it had to say there.",
    ],
  },
  norm: {
    title: "Add & norm",
    short: "Add & norm",
    paper: "section 3.1",
    text: [
      "What a sub-layer says is added to what it read, and the sum is normalised: LayerNorm(x + Sublayer(x)) brings it to mean 0 and deviation 1 before a learned gain and bias (post-norm). What goes past the sub-layer is called the residual; how much the sub-layer adds to it, the numbers below say.",
    ],
  },
  ff: {
    title: "Feed-forward",
    short: "Feed-forward",
    paper: "section 3.3",
    text: [
      "FFN(x) = max(0, xW\u2081 + b\u2081)W\u2082 + b\u2082: at each position alone, d_ff neurons look for a pattern; those that find none stay at 0, the others add their vector. For the strongest neurons of the decoder the pieces are named that their vector makes likelier.",
    ],
  },
  decoder: {
    title: "The decoder looks back, and at the source",
    short: "Decoder",
    paper: "section 3.2.3",
    text: [
      "Masked self-attention looks at what was written so far. Cross-attention looks at what the encoder made of the source. Is that where the answer comes from? Attention alone does not prove it, so two other questions stand beside it: how much less likely does the piece get when a source piece is hidden (occlusion), and how would its log-probability follow a source vector (gradient \u00d7 input)?",
    ],
    lm: ["Masked self-attention looks at what was read so far, never at what comes later."],
  },
  probs: {
    title: "From logits to probabilities",
    short: "Probabilities",
    paper: "section 3.4",
    text: [
      "The last vector is compared with the vector of every piece of the vocabulary: that gives a logit for each. Softmax makes probabilities of them. Temperature divides the logits; top-k keeps the k likeliest; top-p keeps the likeliest that together reach p.",
    ],
  },
  beam: {
    title: "The search for the best sentence",
    short: "Beam search",
    paper: "section 6.1",
    text: [
      "The likeliest piece is not always the start of the likeliest sentence. Beam search keeps several beginnings alive. The score of a sentence is the sum of its log-probabilities, divided by a length penalty, since otherwise short sentences would win. Move \u03b1 and see who would win.",
    ],
  },
  lens: {
    title: "Layer by layer",
    short: "Layer by layer",
    paper: "a lens on section 3.1",
    text: [
      "What would the model say if the decoder ended after this layer? The same last matrix is used after every layer, so early rows are only a hint of where the thought was heading.",
    ],
  },
  try: {
    title: "Try it",
    short: "Try it",
    paper: "change something",
    text: [
      "Change a word, silence a head, move attention, force a piece, or take positions, scaling or mask away. Each change makes a branch; see what follows from it everywhere on this page.",
    ],
  },
  film: {
    title: "How it learned this",
    short: "Training",
    paper: "section 5",
    text: [
      "The same sentence at every saved point of the training: move through training, and through the steps above.",
    ],
  },
  check: {
    title: "This page checks itself",
    short: "Self-check",
    paper: "",
    text: [
      "Nothing here is drawn by hand or by chance. The page takes the tensors it was given, as float16, and computes attention, sums, norms and probabilities once more.",
    ],
  },
};
