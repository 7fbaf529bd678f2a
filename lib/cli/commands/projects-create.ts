import { defineCommand, exitCodes, usage } from '../command.js'
import { adminDetails, adminOptions, projectJson } from '../common-options.js'
import {
  describeProject,
  policyField,
  policyOption,
  projectFields,
  projectOptions,
  withMaskedToken
} from '../project-options.js'
import { checkUserName, ensureUser } from '../system-user.js'
import { openAdmin } from '../client/session.js'

/** The command `svc projects create`. */
export const command = defineCommand({
  operands: {
    name: { required: true, help: 'name of the project' }
  },
  options: {
    path: { type: 'text', value: 'dir', help: 'target directory on the server, absolute (required)' },
    user: {
      type: 'text',
      value: 'name',
      help: 'system user of the project (--run-as); created if it is absent and this is root on the server'
    },
    ...projectOptions,
    ...policyOption,
    ...adminOptions,
    json: projectJson
  },
  details: adminDetails,
  examples: [
    ['projects create shop --path /srv/www/shop', 'create a project'],
    [
      'projects create api --path /srv/api --post "systemctl restart api"',
      'create a project with a script to run after each deployment'
    ],
    ['projects create shop --path /srv/www/shop --user shop', 'create it with a system user of its own, as root']
  ],
  async run({ options, operands }, context) {
    if (options.path === undefined) throw usage('--path', '--path is missing: give the target directory on the server')
    const { user } = options
    if (user !== undefined) {
      checkUserName(user)
      if (options['run-as'] !== undefined)
        throw usage('--user', '--user and --run-as name the same user: give one of them')
    }
    const { api } = await openAdmin(context, options)
    const said = user === undefined ? null : await ensureUser(user, { server: api.address, env: context.env })
    if (said !== null) context.output.note(said)
    const project = await api.createProject({
      name: operands.name,
      deployPath: options.path,
      ...projectFields(options),
      ...(user !== undefined && { runAs: user }),
      ...policyField(options.policy)
    })
    if (options.json) context.output.json(withMaskedToken(project))
    else context.output.print(`Created ${describeProject(project)}`)
    context.output.note(`Next, in your repository: svc init --project ${project.id}`)
    return exitCodes.success
  }
})
