/*
 * The script of the policy that runs after a deployment has failed or was reverted (`onFailureScript`). The step is
 * recorded before the script begins, and it begins at most once: a start that finds the step does not run it again. Its
 * own failure is in the output and in its step, and changes no result. A node runs it, too, if its hub takes a release back:
 * the undo of the node succeeds, and the release was reverted.
 */
import type { DeploymentRow } from '../model/deployment.js'
import { sentenceOf, StopRequest } from './failure.js'
import { runScript, type ScriptStage } from './scripts/script-run.js'
import type { ChosenScript } from './scripts/scripts.js'
import type { Steps } from './steps.js'

/** What the script of one deployment needs. */
export interface FailureScriptNeeds {
  row: DeploymentRow
  script: ChosenScript | null
  steps: Steps
  stage(): ScriptStage
  /** Aborted when the server stops and does not wait. Cancelling the deployment does not stop the script. */
  forced: AbortSignal
  /** Waits until no other deployment uses the target. */
  holdTarget(signal: AbortSignal): Promise<unknown>
  /** Begins to watch what a script changes. Resolves with the function that ends it. */
  watch(): Promise<() => Promise<void>>
}

/** Runs the script if the deployment has one and it has not begun yet. `error`: why it failed. Never rejects. */
export async function runFailureScript(
  needs: FailureScriptNeeds,
  error: unknown,
  { isTakenBack = false }: { isTakenBack?: boolean } = {}
): Promise<void> {
  const { row, script, steps, stage, forced } = needs
  if (script === null || forced.aborted || steps.all().some(({ name }) => name === 'onFailure')) return
  const { masker, output, env } = stage()
  const reason = masker.text(sentenceOf(error, null))
  // If svc is killed meanwhile, the next start finds the reason here.
  if (!isTakenBack) row.errorMessage = reason
  const isReverted = isTakenBack || row.revertedAt !== null
  const facts = { SVC_FAILURE: isReverted ? 'reverted' : 'failed', SVC_FAILURE_REASON: reason }
  await steps
    .run('onFailure', async step => {
      await needs.holdTarget(forced)
      const end = await needs.watch()
      const own = { ...stage(), env: { ...env, ...facts }, signal: forced }
      return runScript(own, script, step).finally(() => end())
    })
    .catch((failure: unknown) => {
      if (!(failure instanceof StopRequest)) output.say(`✗ ${masker.text(sentenceOf(failure, 'onFailure'))}`)
    })
}
