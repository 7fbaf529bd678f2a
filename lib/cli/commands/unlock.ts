import { oneLine } from '../../base/text.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails } from '../common-options.js'
import { lockOperands, lockOptions, openLockPlace } from '../lock-place.js'

/** The command `svc unlock`. */
export const command = defineCommand({
  operands: lockOperands,
  options: {
    'take-over': {
      type: 'text',
      value: 'reason',
      help: 'remove the lock of another owner, and say why; not with a deploy token'
    },
    ...lockOptions
  },
  details: projectDetails,
  examples: [
    ['unlock shop', 'remove your lock of a project'],
    ['unlock shop --take-over "urgent fix"', 'remove the lock of somebody else; the audit log keeps the reason']
  ],
  async run({ options, operands }, context) {
    const { api, projectId } = await openLockPlace(context, { options, operands })
    const lock = await api.unlock(projectId, options['take-over'])
    const { projectName, owner, reason } = lock
    const what = projectName === null ? 'the server' : `project ${projectName}`
    if (options.json) context.output.json(lock)
    else context.output.print(oneLine(`Unlocked ${what}: the lock was of ${owner} ("${reason}")`))
    return exitCodes.success
  }
})
