import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { openRollout, rolloutOperand, rolloutPlaceOptions } from '../fleet/fleet-place.js'
import { reportRollout, waitOption } from '../fleet/rollout-report.js'

/** The command `svc rollout resume`. */
export const command = defineCommand({
  operands: { rolloutId: rolloutOperand },
  options: {
    wait: waitOption,
    ...rolloutPlaceOptions,
    json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
  },
  details:
    'Continues a rollout that was halted or reverted. Nodes that failed try again; nodes that do not answer are\n' +
    'skipped, and get the release when they come back. The command waits until the rollout is done (exit code 0) or\n' +
    `halted again (1). Ctrl-C only stops watching.\n\n${projectDetails}`,
  examples: [['rollout resume', 'continue the rollout of the configured project']],
  async run({ options, operands }, context) {
    const place = await openRollout(context, { options, operands })
    await place.fleet.resume(place.rolloutId)
    if (options.wait) return reportRollout(context, place, { wanted: 'done', options })
    context.output.print(`Continued ${place.rolloutId}`)
    return exitCodes.success
  }
})
