import { maskToken } from '../../config/precedence.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { describeProject, projectFields, projectOptions } from '../project-options.js'
import { loadConfiguration, openAdminApi } from '../session.js'

export const command = defineCommand({
  operands: {
    name: { required: true, help: 'the name of the project' }
  },
  options: {
    path: { type: 'text', value: 'dir', help: 'required: the absolute directory on the server that deployments go to' },
    ...projectOptions,
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the project as JSON, its deploy token masked' }
  },
  details: adminDetails,
  examples: [
    ['projects create shop --path /srv/www/shop', 'create a project'],
    ['projects create api --path /srv/api --post "systemctl restart api"', 'with a script that runs after each deployment']
  ],
  async run({ options, operands }, context) {
    if (options.path === undefined) throw usage('--path', '--path is missing: the directory on the server that deployments go to')
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const api = await openAdminApi(context, config)
    const project = await api.createProject({ name: operands.name, deployPath: options.path, ...projectFields(options) })
    if (options.json) context.output.json({ ...project, token: maskToken(project.token) })
    else context.output.print(`Created ${describeProject(project)}`)
    context.output.note(`Next, where its files are: svc init --project ${project.id}`)
    return exitCodes.success
  }
})
