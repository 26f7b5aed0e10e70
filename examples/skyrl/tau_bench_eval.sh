#!/usr/bin/env bash
# pass@1 and pass^k of a policy on tau-bench through SkyRL, on one machine with eight GPUs:
# two for the simulated user, six for the policy. Needs: pip install 'skillwright[skyrl]'
# 'skyrl[fsdp]==0.3.0' vllm, and the data (skillwright data tau-bench). DOMAIN=airline plays the airline.
#
#   bash examples/skyrl/tau_bench_eval.sh
#   DRY_RUN=1 bash examples/skyrl/tau_bench_eval.sh   # no GPU: configuration, data and rows
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
python rows.py ../tau_bench/eval.yaml --splits test --out "$data" --max-input-length 32768 \
  --set "env.config.domain=$domain" ${TAU_DATA:+"env.config.data_dir=$TAU_DATA"}

settings=(
  data.val_data="['$data/test.parquet']"
  environment.env_class=tau_bench
  environment.skyrl_gym.tau_bench.domain="$domain"
  ${TAU_DATA:+environment.skyrl_gym.tau_bench.data_dir="$TAU_DATA"}
  environment.skyrl_gym.tau_bench.user_simulator_endpoint=http://127.0.0.1:8001/v1
  environment.skyrl_gym.tau_bench.user_simulator_model="$user"
  skillwright.rollouts="$out/rollouts"
  trainer.policy.model.path="$policy"
  trainer.export_path="$out"
  trainer.logger=console
  trainer.max_prompt_length=32768
  trainer.placement.colocate_all=false
  generator.step_wise_trajectories=true
  generator.inference_engine.num_engines=6
  generator.max_turns=30
  generator.max_input_length=32768
  generator.eval_n_samples_per_prompt="$trials"
  generator.eval_sampling_params.temperature=0.0
  generator.eval_sampling_params.max_generate_length=2048
  generator.eval_sampling_params.stop='["</tool_call>"]'
)

if [ -n "${DRY_RUN:-}" ]; then
  # Nobody plays the user: a scripted one says two sentences.
  exec python launch.py eval --dry-run "${settings[@]}" \
    environment.skyrl_gym.tau_bench.user_strategy=scripted \
    environment.skyrl_gym.tau_bench.user_replies='["Hello.", "###STOP###"]' \
    skillwright.dry_answer="How can I help?"
fi

CUDA_VISIBLE_DEVICES=6,7 vllm serve "$user" --port 8001 --tensor-parallel-size 2 &
server=$!
trap 'kill "$server"' EXIT
until curl --silent --fail http://127.0.0.1:8001/v1/models >/dev/null; do
  kill -0 "$server" # ends here where the server did not start
  sleep 5
done

rm -f "$out/rollouts/eval.jsonl" # of an evaluation before
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 python launch.py eval "${settings[@]}"
python scores.py "$out/rollouts/eval.jsonl" --domain "$domain" --data-dir "${TAU_DATA:-}"
