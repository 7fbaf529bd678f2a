import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, projectJson } from '../common-options.js'
import { describeProject, findProject, projectFields, projectOptions, withMaskedToken } from '../project-options.js'
import { policyField, policyOption } from '../policy-option.js'
import { openAdmin } from '../client/session.js'

/** The command `svc projects set`. */
export const command = defineCommand({
  operands: {
    project: { required: true, help: 'id or name of the project', complete: 'projects' }
  },
  options: {
    name: { type: 'text', value: 'text', help: 'new name' },
    path: { type: 'text', value: 'dir', help: 'new target directory on the server; existing files are not moved' },
    ...projectOptions,
    ...policyOption,
    ...adminOptions,
    json: projectJson
  },
  details: adminDetails,
  examples: [
    ['projects set shop --post "systemctl restart shop"', 'set the script to run after each deployment'],
    ['projects set shop --post ""', 'remove the script'],
    ['projects set shop --policy drift=refuse --policy \'confirm={"seconds":90}\'', 'change two keys of the policy']
  ],
  async run({ options, operands }, context) {
    const { name, path } = options
    const fields = {
      ...(name !== undefined && { name }),
      ...(path !== undefined && { deployPath: path }),
      ...projectFields(options),
      ...policyField(options.policy)
    }
    if (Object.keys(fields).length === 0)
      throw usage('--name', 'Nothing to change: give at least one setting, for example --name or --post')
    const { api } = await openAdmin(context, options)
    const project = await api.updateProject((await findProject(api, operands.project)).id, fields)
    if (options.json) context.output.json(withMaskedToken(project))
    else context.output.print(`Changed ${Object.keys(fields).join(', ')} of ${describeProject(project)}`)
    return exitCodes.success
  }
})
