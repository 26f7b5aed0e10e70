#!/usr/bin/env bash
# GRPO on ALFWorld through SkyRL with a skill bank that evolves between checkpoints, on one machine
# with eight GPUs. Needs: pip install 'skillwright[skyrl]' 'skyrl[fsdp]==0.3.0', the games
# (alfworld-download, ALFWORLD_DATA), and a key for the teacher.
#
#   TEACHER=openai_chat:gpt-5.5 bash examples/skyrl/alfworld_grpo.sh
#   DRY_RUN=1 bash examples/skyrl/alfworld_grpo.sh   # no GPU, no teacher: configuration, data and rows
#
# A round writes the rows with the bank's present skills, trains STEPS steps from the latest
# checkpoint, and has the teacher change the bank by what was played in them. No gate judges those
# changes: whoever wants one serves the checkpoint (see alfworld.yaml). Given again after it was
# stopped, it continues with the round that is missing.
set -euo pipefail
cd "$(dirname "$0")"

policy=${POLICY:-Qwen/Qwen2.5-1.5B-Instruct}
rounds=${ROUNDS:-5}
steps=${STEPS:-20}
gpus=${GPUS:-8}
group=${GROUP:-8}
batch=${BATCH:-16}
games=${GAMES:-alfworld.yaml}
data=${DATA:-$HOME/data/alfworld}
out=${OUT:-$HOME/exports/alfworld}
bank=${BANK:-$out/bank.sqlite}

mkdir -p "$out"
[ -f "$bank" ] || skillwright bank import seed:alfworld --bank "$bank"

write_rows() {
  python rows.py "$games" --bank "$bank" --out "$data"
}

settings=(
  data.train_data="['$data/train.parquet']"
  data.val_data="['$data/val.parquet']"
  environment.env_class=alfworld
  trainer.policy.model.path="$policy"
  trainer.algorithm.advantage_estimator=grpo
  trainer.algorithm.use_kl_loss=true
  trainer.algorithm.kl_loss_coef=0.01
  trainer.policy.optimizer_config.lr=1.0e-6
  trainer.epochs=1000
  trainer.train_batch_size="$batch"
  trainer.policy_mini_batch_size="$batch"
  trainer.eval_interval="$steps"
  trainer.eval_before_train=false
  trainer.ckpt_interval="$steps"
  trainer.max_ckpts_to_keep=2
  trainer.resume_mode=latest
  trainer.ckpt_path="$out/checkpoints"
  trainer.export_path="$out"
  trainer.logger=console
  trainer.max_prompt_length=8192
  trainer.placement.policy_num_gpus_per_node="$gpus"
  trainer.placement.ref_num_gpus_per_node="$gpus"
  generator.inference_engine.num_engines="$gpus"
  generator.n_samples_per_prompt="$group"
  generator.step_wise_trajectories=true
  generator.merge_stepwise_output=true
  generator.max_turns=30
  generator.max_input_length=16384
  generator.sampling_params.max_generate_length=256
)

if [ -n "${DRY_RUN:-}" ]; then
  write_rows
  exec python launch.py train --dry-run "${settings[@]}"
fi

for round in $(seq 1 "$rounds"); do
  [ -f "$out/rollouts/round_$round.done" ] && continue
  # SkyRL takes a step before it looks whether it has taken enough, so a round is not trained twice.
  if [ ! -f "$out/rollouts/round_$round.trained" ]; then
    write_rows
    python launch.py train "${settings[@]}" \
      trainer.max_training_steps=$((round * steps)) \
      skillwright.rollouts="$out/rollouts/round_$round"
    touch "$out/rollouts/round_$round.trained"
  fi
  skillwright bank evolve "$out/rollouts/round_$round"/step_*.jsonl --bank "$bank" \
    --teacher "${TEACHER:?name who teaches, such as openai_chat:gpt-5.5}" \
    --without-gate "between checkpoints, as SkillRL does"
  touch "$out/rollouts/round_$round.done"
done
