import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes, type Family, toggle } from '../command.js'
import { adminDetails, adminOptions, deploymentOperand, sharedOptions } from '../common-options.js'
import { confirmation } from '../terminal/prompt.js'

/** The command that deletes one archive. */
export const commands = {
  'archive delete': defineCommand({
    operands: { deployId: deploymentOperand },
    options: {
      force: toggle('also delete an archive that an exact undo needs'),
      yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
      json: sharedOptions.json,
      ...adminOptions
    },
    details: `Nobody can roll back to the deployment afterwards. Its record, output and list of files stay. Refused while the
archive is needed: the deployment is in progress, its files are in the target, or nodes
get it.\n\n${adminDetails('admin')}`,
    examples: [['archive delete dep_abcdefghijklmnop', 'delete the archive after confirmation']],
    async run({ options, operands: { deployId } }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Deleting an archive', done: 'deleted' })
      const { client } = await openAdmin(context, options)
      if (!(await isSure(`Delete the archive of ${deployId}? Nobody can roll back to it afterwards.`)))
        return exitCodes.failed
      const answer = await client.call('DELETE /api/deployments/:id/archive', {
        id: deployId,
        query: { force: options.force ? 'true' : undefined }
      })
      context.output.result(options.json, answer, `Deleted the archive of ${deployId}`)
      return exitCodes.success
    }
  })
} satisfies Family
