import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { openRollout, rolloutOperand, rolloutPlaceOptions } from '../fleet/fleet-place.js'
import { nextLine } from '../fleet/rollout-watch.js'
import { countWords } from '../fleet/wave-view.js'

/** The command `svc rollout halt`. */
export const command = defineCommand({
  operands: { rolloutId: rolloutOperand },
  options: {
    reason: { type: 'text', alias: 'm', value: 'text', help: 'why; it is shown with the rollout' },
    ...rolloutPlaceOptions,
    json: { ...sharedOptions.json, help: 'print the rollout as JSON' }
  },
  details:
    'No other node begins. A node that has begun finishes. Prepared nodes keep the release for 24 hours, so "svc\n' +
    `rollout resume" continues quickly.\n\n${projectDetails}`,
  examples: [['rollout halt -m "errors in the log of web-1"', 'stop the rollout of the configured project']],
  async run({ options, operands }, context) {
    const { output } = context
    const { fleet, rolloutId } = await openRollout(context, { options, operands })
    const rollout = await fleet.halt(rolloutId, options.reason)
    if (options.json) output.json(rollout)
    else output.print(`Halted ${rollout.id} in wave ${rollout.wave} of ${rollout.waves}: ${countWords(rollout.counts)}`)
    const next = nextLine(rollout, options)
    if (next !== null) output.note(next)
    return exitCodes.success
  }
})
