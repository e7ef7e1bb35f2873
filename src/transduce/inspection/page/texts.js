// The prose of the page. Symbols and section numbers are those of "Attention Is All You Need"
// (Vaswani et al. 2017).

export const TEXTS = {
  sentence: {
    title: "One step at a time",
    short: "The sentence",
    paper: "section 3.1",
    text: [
      "A Transformer writes its output token by token. At every step it reads the whole " +
        "source and everything it has written so far, and predicts the next token. Move through " +
        "the steps with the bar above, or with the arrow keys.",
    ],
    lm: [
      "A language model reads token by token. After each one it predicts the next. Move " +
        "through the steps with the bar above, or with the arrow keys.",
    ],
  },
  tokens: {
    title: "Tokens and their ids",
    short: "Tokens",
    paper: "section 5.1",
    text: [
      "A model reads numbers. The text is split into tokens from a fixed vocabulary, and each " +
        "token has an index in that vocabulary: its id. ## marks a token that continues a word. " +
        "[SOS] starts the output, [EOS] ends a sentence.",
    ],
  },
  embedding: {
    title: "A vector for each token, and its position",
    short: "Vectors + positions",
    paper: "sections 3.4, 3.5",
    text: [
      "Each id is looked up in a table and gives a vector of d_model numbers, multiplied by " +
        "\u221ad_model. Attention by itself does not see order, so a vector that depends only " +
        "on the position is added. With sines, even dimensions hold sin(pos / " +
        "10000^(2i/d_model)) and odd ones cos of the same.",
    ],
  },
  qkv: {
    title: "Query, key, value",
    short: "Query, key, value",
    paper: "section 3.2.1",
    text: [
      "Each head turns every vector into three short ones: a query q (what am I looking " +
        "for?), a key k (what am I?) and a value v (what do I give?). A query and a key are " +
        "multiplied element by element; the products add up to one number, the score.",
    ],
  },
  scores: {
    title: "From scores to attention, in five stages",
    short: "Scores in five stages",
    paper: "Eq. 1",
    text: [
      "softmax(QK\u1d40 / \u221ad_k) V. Each row is a token that attends (a query), each " +
        "column a token that is attended to (a key). A row of the decoder is named \u201camo " +
        "\u2192 molto\u201d: the token it read last, and the one it wrote next. Scores are " +
        "divided by \u221ad_k so that they do not grow with the size of the head; in the " +
        "decoder later positions are masked; softmax turns each row into weights that add up to " +
        "1; with these the values are mixed.",
    ],
  },
  heads: {
    title: "All heads at a glance",
    short: "All heads",
    paper: "section 3.2.2",
    text: [
      "Every small square is one head of one layer: rows look, columns are looked at, and the " +
        "scale of colours says how much. The words below each say what the head mostly looks at " +
        "here, and how much of its weight goes there: the mean over all rows, in the " +
        "decoder\u2019s self-attention without the first, which can only look at itself. " +
        "\u201cNeeded\u201d is the token without which the next one would be least likely. " +
        "Press a head to choose it for the other stations.",
    ],
  },
  concat: {
    title: "The heads combined",
    short: "Concat and Wᴼ",
    paper: "section 3.2.2",
    text: [
      "The outputs of the heads are concatenated and multiplied by W\u1d3c. The length of the " +
        "vector that a head adds to a position shows how much it contributes there.",
    ],
  },
  norm: {
    title: "Add & norm",
    short: "Add & norm",
    paper: "section 3.1",
    text: [
      "The output of a sub-layer is added to its input, and the sum is normalized: " +
        "LayerNorm(x + Sublayer(x)) brings it to mean 0 and deviation 1 before a learned gain " +
        "and bias (post-norm). The input that is added unchanged is called the residual; the " +
        "numbers below show how much the sub-layer adds to it.",
    ],
  },
  ff: {
    title: "Feed-forward",
    short: "Feed-forward",
    paper: "section 3.3",
    text: [
      "FFN(x) = max(0, xW\u2081 + b\u2081)W\u2082 + b\u2082: at each position alone, d_ff " +
        "neurons look for a pattern; those that find none stay at 0, the others add their " +
        "vector. For the strongest neurons of the decoder, the tokens are listed that their " +
        "vector makes more likely.",
    ],
  },
  decoder: {
    title: "The decoder looks back, and at the source",
    short: "Decoder",
    paper: "section 3.2.3",
    text: [
      "Masked self-attention looks at what was written so far. Cross-attention looks at what " +
        "the encoder made of the source. Is that where the answer comes from? Attention alone " +
        "does not prove it, so two other measures are shown: how much less likely does the " +
        "token become when a source token is hidden (occlusion), and how would its " +
        "log-probability follow a source vector (gradient \u00d7 input)?",
    ],
    lm: ["Masked self-attention looks at what was read so far, never at what comes later."],
  },
  probs: {
    title: "From logits to probabilities",
    short: "Probabilities",
    paper: "section 3.4",
    text: [
      "The dot product of the last vector with the vector of each token of the vocabulary is " +
        "the logit of that token. Softmax turns logits into probabilities. Temperature divides " +
        "the logits; top-k keeps the k likeliest; top-p keeps the likeliest that together reach " +
        "p.",
    ],
  },
  beam: {
    title: "The search for the best sentence",
    short: "Beam search",
    paper: "section 6.1",
    text: [
      "The most likely token is not always the start of the most likely sentence. Beam search " +
        "keeps several hypotheses. The score of a sentence is the sum of its log-probabilities, " +
        "divided by a length penalty, since otherwise short sentences would win. Move \u03b1 " +
        "and see which one would win.",
    ],
  },
  lens: {
    title: "Layer by layer",
    short: "Layer by layer",
    paper: "a lens on section 3.1",
    text: [
      "What would the model predict if the decoder ended after this layer? The same last " +
        "matrix is used after every layer, so early rows are only an indication.",
    ],
  },
  try: {
    title: "Try it",
    short: "Try it",
    paper: "change something",
    text: [
      "Change a word, mute a head, move attention, force a token, or remove positions, " +
        "scaling or the mask. Each change makes a branch; see its effect everywhere on this " +
        "page.",
    ],
  },
  film: {
    title: "How it learned this",
    short: "Training",
    paper: "section 5",
    text: [
      "The same sentence at every saved point of the training: move through training, and " +
        "through the steps above.",
    ],
  },
  check: {
    title: "This page checks itself",
    short: "Self-check",
    paper: "",
    text: [
      "Nothing here is drawn by hand or by chance. The page takes the tensors it was given, " +
        "as float16, and computes attention, sums, norms and probabilities once more.",
    ],
  },
};
