import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { openRollout, rolloutOperand, rolloutPlaceOptions } from '../fleet/fleet-place.js'

/** The command `svc rollout approve`. */
export const command = defineCommand({
  operands: { rolloutId: rolloutOperand },
  options: { ...rolloutPlaceOptions, json: { ...sharedOptions.json, help: 'print the rollout as JSON' } },
  details:
    'Possible while the rollout waits for an approval (policy "pause": "approve"), or pauses between two waves. The\n' +
    'deploy token of the project cannot approve: a pipeline that pushes does not decide about its own release. Use\n' +
    `the admin token, or a named token with the role operator.\n\n${adminDetails}`,
  examples: [['rollout approve', 'begin the next wave of the rollout of the configured project']],
  async run({ options, operands }, context) {
    const { fleet, rolloutId } = await openRollout(context, { options, operands })
    const rollout = await fleet.approve(rolloutId)
    if (options.json) context.output.json(rollout)
    else context.output.print(`Began wave ${rollout.wave} of ${rollout.waves} of ${rollout.id}`)
    return exitCodes.success
  }
})
