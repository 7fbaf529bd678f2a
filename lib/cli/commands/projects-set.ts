import { type Context, defineCommand, exitCodes, usage } from '../command.js'
import { adminDetails, adminOptions, projectJson, sharedOptions } from '../common-options.js'
import {
  describeProject,
  findProject,
  policyField,
  policyOption,
  projectFields,
  projectOptions,
  withMaskedToken
} from '../project-options.js'
import { countOf } from '../../base/text.js'
import { confirm, mustAsk } from '../terminal/prompt.js'
import { openAdmin } from '../client/session.js'

/** The command `svc projects set`. */
export const command = defineCommand({
  operands: {
    project: { help: 'id or name of the project', complete: 'projects' }
  },
  options: {
    name: { type: 'text', value: 'text', help: 'new name' },
    path: { type: 'text', value: 'dir', help: 'new target directory on the server; existing files are not moved' },
    ...projectOptions,
    ...policyOption,
    all: { type: 'switch', help: 'change all projects; only with --client-scripts' },
    yes: { ...sharedOptions.yes, help: 'do not ask before changing all projects; required without a terminal' },
    ...adminOptions,
    json: projectJson
  },
  details: adminDetails,
  examples: [
    ['projects set shop --post "systemctl restart shop"', 'set the script to run after each deployment'],
    ['projects set shop --post ""', 'remove the script'],
    ['projects set --all --client-scripts false', 'run no scripts of clients in any project'],
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
    if (options.all && operands.project !== undefined)
      throw usage('--all', `--all changes all projects: leave out "${operands.project}"`)
    if (options.all) return setAll(fields, options, context)
    if (operands.project === undefined) throw usage('project', 'The project is missing: give its id or name, or --all')
    const { api } = await openAdmin(context, options)
    const project = await api.updateProject((await findProject(api, operands.project)).id, fields)
    if (options.json) context.output.json(withMaskedToken(project))
    else context.output.print(`Changed ${Object.keys(fields).join(', ')} of ${describeProject(project)}`)
    return exitCodes.success
  }
})

type Options = Parameters<typeof openAdmin>[1] & { yes: boolean | undefined; json: boolean | undefined }

/** Allows or refuses scripts of clients in all projects. Other settings differ from project to project. */
async function setAll(fields: object, options: Options, context: Context): Promise<number> {
  const { host, output } = context
  const { allowClientScripts, ...others } = fields as { allowClientScripts?: boolean | null }
  if (allowClientScripts === undefined || Object.keys(others).length > 0)
    throw usage('--all', '--all is only possible with --client-scripts, and with no other setting')
  if (!options.yes) mustAsk(host, 'Changing all projects needs a confirmation', 'use --yes')
  const { api } = await openAdmin(context, options)
  const projects = await api.projects()
  const words = countOf(projects.length, 'project')
  if (!options.yes && !(await confirm(host, `Change allowClientScripts of ${words}?`))) {
    output.note('Nothing was changed.')
    return exitCodes.failed
  }
  const action = { action: 'setClientScripts', categoryId: null, allowClientScripts } as const
  const outcome = await api.changeProjects(
    projects.map(({ id }) => id),
    action
  )
  if (options.json) output.json(outcome)
  else output.print(`Changed allowClientScripts of ${countOf(outcome.done, 'project')}`)
  for (const { id, error } of outcome.failed) output.warn(`${id}: ${error}`)
  return outcome.failed.length === 0 ? exitCodes.success : exitCodes.failed
}
