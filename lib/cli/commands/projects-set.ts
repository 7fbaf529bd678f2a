import { maskToken } from '../../config/precedence.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { describeProject, findProject, projectFields, projectOptions } from '../project-options.js'
import { loadConfiguration, openAdminApi } from '../session.js'

export const command = defineCommand({
  operands: {
    project: { required: true, help: 'its id or name', complete: 'projects' }
  },
  options: {
    name: { type: 'text', value: 'text', help: 'another name' },
    path: { type: 'text', value: 'dir', help: 'another directory on the server; the files are not moved' },
    ...projectOptions,
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the project as JSON, its deploy token masked' }
  },
  details: adminDetails,
  examples: [
    ['projects set shop --post "systemctl restart shop"', 'set the script that runs after each deployment'],
    ['projects set shop --post ""', 'remove it']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, name, path } = options
    const fields = { ...(name !== undefined && { name }), ...(path !== undefined && { deployPath: path }), ...projectFields(options) }
    if (Object.keys(fields).length === 0) throw usage('--name', 'there is nothing to change: give at least one setting, as --name or --post')
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const api = await openAdminApi(context, config)
    const project = await api.updateProject((await findProject(api, operands.project)).id, fields)
    if (options.json) context.output.json({ ...project, token: maskToken(project.token) })
    else context.output.print(`Changed ${Object.keys(fields).join(', ')} of ${describeProject(project)}`)
    return exitCodes.success
  }
})
