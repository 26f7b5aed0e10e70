#!/usr/bin/env bash
# pass@1 and pass^k of a policy on tau-bench through SkyRL, on one machine with eight GPUs:
# two for the simulated user, six for the policy. Needs: pip install 'skillwright[skyrl]'
# 'skyrl[fsdp]==0.3.0' vllm, and the data (skillwright data tau-bench). DOMAIN=airline plays the airline.
#
#   bash examples/tau_bench/skyrl_eval.sh
#
# It ends at once where there is no data; TAU_DATA names a folder, or asks for the built-in store.
set -euo pipefail
cd "$(dirname "$0")"

policy=${POLICY:-Qwen/Qwen3.5-4B}
user=${USER_MODEL:-Qwen/Qwen2.5-7B-Instruct}
domain=${DOMAIN:-retail}
trials=${TRIALS:-4}
data=${DATA:-$HOME/data/tau_bench}
out=${OUT:-$HOME/exports/tau_bench}

# First, because it is quick: nothing is served for data that is not there.
python skyrl_rows.py --split test --out "$data/test.parquet" --domain "$domain" \
  --data-dir "${TAU_DATA:-}" --max-input-length 32768

CUDA_VISIBLE_DEVICES=6,7 vllm serve "$user" --port 8001 --tensor-parallel-size 2 &
server=$!
trap 'kill "$server"' EXIT
until curl --silent --fail http://127.0.0.1:8001/v1/models >/dev/null; do
  kill -0 "$server" # ends here where the server did not start
  sleep 5
done

CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 python skyrl_eval.py \
  data.val_data="['$data/test.parquet']" \
  environment.skyrl_gym.max_env_workers=128 \
  environment.skyrl_gym.tau_bench.domain="$domain" \
  ${TAU_DATA:+environment.skyrl_gym.tau_bench.data_dir="$TAU_DATA"} \
  environment.skyrl_gym.tau_bench.user_simulator_endpoint=http://127.0.0.1:8001/v1 \
  environment.skyrl_gym.tau_bench.user_simulator_model="$user" \
  trainer.policy.model.path="$policy" \
  trainer.export_path="$out" \
  trainer.logger=console \
  trainer.placement.colocate_all=false \
  generator.inference_engine.num_engines=6 \
  generator.max_turns=30 \
  generator.max_input_length=32768 \
  generator.eval_n_samples_per_prompt="$trials" \
  generator.eval_sampling_params.temperature=0.0 \
  generator.eval_sampling_params.max_generate_length=2048 \
  generator.eval_sampling_params.stop='["</tool_call>"]'

python skyrl_scores.py "$out/dumped_evals/eval_only" --domain "$domain" --data-dir "${TAU_DATA:-}"
