// Prints the logits that llama.cpp computes at every position of texts.
//
//     logits MODEL.gguf < texts
//
// A line of the input holds the tokens of a text. Each position becomes a line of the output.
// One thread, a cache of f32 and no flash attention: nothing that can be f32 is anything else.

#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

enum { MOST = 256 };

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_context *open_context(struct llama_model *model) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = MOST;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = GGML_TYPE_F32;
    return llama_init_from_model(model, params);
}

// All positions in one pass.
static int print_logits(struct llama_context *context, const llama_token *tokens, int count) {
    const struct llama_vocab *vocab = llama_model_get_vocab(llama_get_model(context));
    struct llama_batch batch = llama_batch_init(count, 0, 1);
    for (batch.n_tokens = 0; batch.n_tokens < count; batch.n_tokens++) {
        int at = batch.n_tokens;
        batch.token[at] = tokens[at];
        batch.pos[at] = at;
        batch.n_seq_id[at] = 1;
        batch.seq_id[at][0] = 0;
        batch.logits[at] = 1;
    }
    llama_memory_clear(llama_get_memory(context), true);
    int failed = llama_decode(context, batch);
    for (int at = 0; !failed && at < count; at++) {
        const float *row = llama_get_logits_ith(context, at);
        for (int i = 0; i < llama_vocab_n_tokens(vocab); i++) printf("%.9g ", (double)row[i]);
        printf("\n");
    }
    llama_batch_free(batch);
    return failed;
}

int main(int count, char **arguments) {
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model =
        count == 2 ? llama_model_load_from_file(arguments[1], params) : NULL;
    struct llama_context *context = model ? open_context(model) : NULL;
    int failed = context == NULL;
    char line[8 * MOST];
    while (!failed && fgets(line, sizeof line, stdin)) {
        llama_token tokens[MOST];
        int length = 0;
        for (char *at = line, *end; length < MOST; at = end, length++) {
            tokens[length] = (llama_token)strtol(at, &end, 10);
            if (end == at) break;
        }
        failed = print_logits(context, tokens, length);
    }
    return failed;
}
