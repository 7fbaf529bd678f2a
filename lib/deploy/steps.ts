import { elapsedOf, instantOf, type Clock } from '../base/clock.js'
import { formatSeconds } from '../base/text.js'
import type { DeploymentStep, StepName } from '../model/deployment.js'
import { sentenceOf, StepFailure, Suspension } from './failure.js'
import type { Output } from './output/output.js'

/** The steps of a run as they are recorded, with their start and end times. */
export interface Steps {
  /**
   * Runs a step. `work` returns a sentence for the output, or null if there was nothing to do. Throws a StepFailure
   * whose message is for the record, or the reason of the aborted signal.
   */
  run(name: StepName, work: StepWork): Promise<void>
  all(): DeploymentStep[]
}

/** The work of one step. Returns a sentence for the output, or null if the step is skipped. */
export type StepWork = (step: DeploymentStep) => Promise<string | null>

/** Dependencies of `createSteps`. */
export interface StepsNeeds {
  clock: Clock
  output: Output
  signal: AbortSignal
  /** Steps that are done already: step 1. */
  done: readonly DeploymentStep[]
  /** Writes the steps to the record. */
  save(steps: DeploymentStep[]): Promise<void>
}

/** Creates the list of steps of one run. */
export function createSteps({ clock, output, signal, done, save }: StepsNeeds): Steps {
  const steps = done.map(step => ({ ...step }))

  async function carryOut(step: DeploymentStep, work: StepWork): Promise<void> {
    const startedMs = elapsedOf(clock)
    await save(steps)
    const sentence = await work(step)
    if (sentence !== null) output.say(`→ ${sentence} (${formatSeconds(elapsedOf(clock) - startedMs)})`)
    await output.flush()
    step.status = sentence === null ? 'skipped' : 'success'
  }

  return {
    async run(name, work) {
      const isClosing = name === 'cleanup' || name === 'revert' || name === 'onFailure'
      if (!isClosing) signal.throwIfAborted()
      const step: DeploymentStep = { name, status: 'running', startedAt: instantOf(clock), endedAt: null }
      steps.push(step)
      try {
        await carryOut(step, work)
      } catch (error) {
        // The next start continues the step.
        if (error instanceof Suspension) throw error
        step.status = 'failed'
        step.endedAt = instantOf(clock)
        if (signal.aborted && !isClosing) throw signal.reason
        throw new StepFailure(sentenceOf(error, name), { cause: error })
      }
      step.endedAt = instantOf(clock)
    },
    all: () => steps
  }
}
