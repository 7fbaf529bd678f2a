import { lockSentence } from '../../model/lock.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { durationOption, projectDetails } from '../common-options.js'
import { lockOperands, lockOptions, openLockPlace } from '../lock-place.js'

/** The command `svc lock`. */
export const command = defineCommand({
  operands: lockOperands,
  options: {
    reason: { type: 'text', alias: 'm', value: 'text', help: 'why; everyone whose deployment is refused reads it' },
    for: { type: 'text', value: 'time', help: 'when the lock expires, from 1m to 30d; default: 1d' },
    renew: { type: 'switch', help: 'replace the reason and the end of your own lock' },
    ...lockOptions
  },
  details:
    'A locked project refuses pushes and rollbacks. A queued deployment fails when its turn comes; a running one\n' +
    'continues. A lock always expires. "svc push --wait" waits for its end.\n\n' +
    `${projectDetails} --all needs the admin token or that of an operator.`,
  examples: [
    ['lock shop --reason "audit until Friday" --for 2d', 'refuse deployments of a project for two days'],
    ['lock --all --reason "moving to a new disk" --for 30m', 'refuse deployments of every project']
  ],
  async run({ options, operands }, context) {
    const { reason, renew, json } = options
    if (reason === undefined) throw usage('--reason', 'The reason is missing: say why with --reason')
    const seconds =
      options.for === undefined ? {} : { seconds: Math.round(durationOption('--for', options.for) / 1000) }
    const { api, projectId } = await openLockPlace(context, { options, operands })
    const lock = await api.lock(projectId, { reason, ...seconds, ...(renew && { renew }) })
    if (json) context.output.json(lock)
    else context.output.print(lockSentence(lock, lock.projectName))
    return exitCodes.success
  }
})
