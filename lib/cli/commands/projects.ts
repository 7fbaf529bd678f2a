import { marksOf, newestDeployments, noMarks } from '../client/runs.js'
import { Refusal } from '../../base/errors.js'
import { countOf, oneLine } from '../../base/text.js'
import type { ListedDeployment } from '../../model/deployment.js'
import { type BulkOutcome, maxBulk, sharedNames, type ShownProject } from '../../model/project.js'
import type { Marks, Waiting } from '../../model/marks.js'
import { findProject } from '../client/named-project.js'
import { type AdminOptions, openAdmin, projectIdOf, openProject } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import {
  adminDetails,
  adminOptions,
  projectOperand,
  projectJson,
  sharedOptions,
  projectDetails,
  serverOptions
} from '../common-options.js'
import {
  describeProject,
  policyField,
  policyOption,
  projectFieldNames,
  projectFields,
  projectOptions,
  withMaskedToken,
  checkUserName,
  ensureUser
} from '../project-options.js'
import { originWords, paintStatus, projectState, shownMessage } from '../terminal/deployments.js'
import { confirmation } from '../terminal/prompt.js'
import type { Output } from '../terminal/output.js'
import { relativeTime, humanDuration } from '../terminal/words.js'
import { distanceWords } from '../../base/shared/distance.js'
import type { Family as ProjectFamily, FamilyMember } from '../../model/family.js'

/** The commands for projects, their settings, and the components that are in place in them. */
export const commands = {
  list: defineCommand({
    options: {
      ...adminOptions,
      matrix: toggle('show the projects of each application side by side: which release is where'),
      json: toggle('print the projects as JSON, with deploy tokens masked')
    },
    details: adminDetails('viewer'),
    examples: [
      ['list', 'list the projects of the configured server'],
      ['list --matrix', 'compare staging with production, and the like'],
      ['list --json --server https://deploy.example.com', 'list the projects of another server, for a script']
    ],
    async run({ options }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      if (options.matrix) {
        const { families } = await client.call('GET /api/families')
        if (options.json) output.json(families)
        else printMatrix(output, families, Date.now())
        return
      }
      const projects = await client.call('GET /api/projects')
      const marks = projects.length === 0 ? noMarks : await marksOf(client)
      const newest = projects.length === 0 ? new Map<string, ListedDeployment>() : await newestDeployments(client)
      if (options.json) {
        const lastOf = (id: string): ListedDeployment | null => newest.get(id) ?? null
        const waitingOf = (id: string): Waiting[] => marks.waiting.filter(({ projectId }) => projectId === id)
        const listed = projects.map(project => {
          return { ...withMaskedToken(project), lastDeployment: lastOf(project.id), waiting: waitingOf(project.id) }
        })
        output.json(listed)
        return
      }
      if (projects.length === 0) {
        output.note('There are no projects yet. Use "svc projects create <name> --path <dir>" to create one.')
        return
      }
      const nowMs = Date.now()
      output.table(projects, [
        // A name is enough for every command.
        { header: 'PROJECT', cell: project => project.id, drop: 'first' },
        { header: 'NAME', cell: project => project.name, shrinkTo: 31 },
        {
          header: 'STATUS',
          cell: project => projectState(project, marks, nowMs).words,
          paint: (text, project) => paintStatus(output.paint, projectState(project, marks, nowMs).status, text),
          wraps: true
        },
        { header: 'ENV', cell: project => project.env, shrinkTo: 10, drop: 'last' },
        { header: 'LAST DEPLOYED', cell: project => relativeTime(project.lastDeployAt, nowMs), drop: 'last' },
        { header: 'LAST MESSAGE', cell: ({ id }) => lastMessage(newest.get(id)), shrinkTo: 16, drop: 'last' },
        { header: 'COMMIT', cell: ({ id }) => originWords(newest.get(id)?.provenance), shrinkTo: 8, drop: 'last' },
        { header: 'TARGET', cell: project => placeOf(project, marks), shrinkTo: 10, drop: 'last' }
      ])
      for (const { name, ids } of sharedNames(projects))
        output.note(
          `"${oneLine(name)}" is the name of ${ids.join(', ')}. Rename one: svc projects set <id> --name <name>`
        )
    }
  }),

  'projects create': defineCommand({
    operands: { name: { required: true, help: 'name of the project' } },
    fields: projectFieldNames,
    options: {
      path: option('dir', 'target directory on the server, absolute (required)'),
      user: option(
        'name',
        'system user of the project (--run-as); created if it is absent and this is root on the server'
      ),
      ...projectOptions,
      ...policyOption,
      ...adminOptions,
      json: projectJson
    },
    details: adminDetails('admin'),
    examples: [
      ['projects create shop --path /srv/www/shop', 'create a project'],
      [
        'projects create api --path /srv/api --post "systemctl restart api"',
        'create a project with a script to run after each deployment'
      ],
      ['projects create shop --path /srv/www/shop --user shop', 'create it with a system user of its own, as root']
    ],
    async run({ options, operands }, context) {
      if (options.path === undefined)
        throw usage('--path', '--path is missing: give the target directory on the server')
      const { user } = options
      if (user !== undefined) {
        checkUserName(user)
        if (options['run-as'] !== undefined)
          throw usage('--user', '--user and --run-as name the same user: give one of them')
      }
      const { client } = await openAdmin(context, options)
      const said = user === undefined ? null : await ensureUser(user, { server: client.address, env: context.env })
      if (said !== null) context.output.note(said)
      const fields = {
        name: operands.name,
        deployPath: options.path,
        ...projectFields(options),
        ...(user !== undefined && { runAs: user }),
        ...policyField(options.policy)
      }
      const { project } = await client.call('POST /api/projects', { body: fields as never })
      context.output.result(options.json, withMaskedToken(project), `Created ${describeProject(project)}`)
      context.output.note(`Next, in your repository: svc init --project ${project.id}`)
    }
  }),

  'projects show': defineCommand({
    operands: { project: projectOperand },
    options: { ...adminOptions, json: projectJson },
    details: adminDetails('viewer'),
    examples: [['projects show shop', 'show the settings of a project']],
    async run({ options, operands }, context) {
      const { output } = context
      const { client, config } = await openAdmin(context, options, operands.project)
      const project = await findProject(client, projectIdOf(context, config))
      const shown = withMaskedToken(project)
      if (options.json) output.json(shown)
      else
        output.table(Object.entries(shown), [
          { header: 'FIELD', cell: ([field]) => field },
          { header: 'VALUE', cell: ([, value]) => textOf(value), shrinkTo: 20, wraps: true }
        ])
    }
  }),

  'projects set': defineCommand({
    fields: projectFieldNames,
    operands: { project: { help: 'id or name of the project', complete: 'projects' } },
    options: {
      name: option('text', 'new name'),
      path: option('dir', 'new target directory on the server; existing files are not moved'),
      ...projectOptions,
      ...policyOption,
      all: toggle('change all projects; only with --client-scripts'),
      yes: { ...sharedOptions.yes, help: 'do not ask before changing all projects; required without a terminal' },
      ...adminOptions,
      json: projectJson
    },
    details: adminDetails('admin'),
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
      if (operands.project === undefined)
        throw usage('project', 'The project is missing: give its id or name, or --all')
      const { client } = await openAdmin(context, options)
      const { id } = await findProject(client, operands.project)
      const { project, warnings = [] } = await client.call('PUT /api/projects/:id', { id, body: fields as never })
      refuseIgnored(fields, project)
      for (const warning of warnings) context.output.note(oneLine(warning))
      context.output.result(
        options.json,
        withMaskedToken(project),
        `Changed ${Object.keys(fields).join(', ')} of ${describeProject(project)}`
      )
      return exitCodes.success
    }
  }),

  'projects token': defineCommand({
    operands: { project: projectOperand },
    options: {
      new: toggle('replace the token; the old one becomes invalid'),
      yes: { ...sharedOptions.yes, help: 'do not ask before replacing the token; required without a terminal' },
      ...adminOptions
    },
    details: `Prints only the token, so that you can pipe it.\n\n${adminDetails('admin')}`,
    examples: [
      ['projects token shop | svc login --token -', 'store the token on this machine'],
      ['projects token shop --new --yes', 'replace a token that leaked']
    ],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes || !options.new, what: 'Replacing the token' })
      const { client, config } = await openAdmin(context, options, operands.project)
      const project = await findProject(client, projectIdOf(context, config))
      if (!(await isSure(`Replace the deploy token of ${describeProject(project)}?`))) return exitCodes.failed
      context.output.print(
        options.new ? (await client.call('POST /api/projects/:id/token', { id: project.id })).token : visible(project)
      )
      return exitCodes.success
    }
  }),

  'projects delete': defineCommand({
    operands: { project: { required: true, help: 'id or name of the project', complete: 'projects' } },
    options: { yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' }, ...adminOptions },
    details: `Deletes the deployments, archives, outputs and log sources of the project. Its target directory stays.\n\n${adminDetails('admin')}`,
    examples: [['projects delete shop', 'delete a project after confirmation']],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Deleting a project', done: 'deleted' })
      const { client } = await openAdmin(context, options)
      const project = await findProject(client, operands.project)
      const question = `Delete ${describeProject(project)} with its deployments, archives and outputs?`
      if (!(await isSure(question))) return exitCodes.failed
      await client.call('DELETE /api/projects/:id', { id: project.id })
      context.output.print(`Deleted ${describeProject(project)}. The files in its target directory were kept`)
      return exitCodes.success
    }
  }),

  'search-components': defineCommand({
    operands: { name: { required: true, help: 'part of the name or of the package URL, whatever its case' } },
    options: {
      version: option('version', 'only this version; 2.14 also finds 2.14.1'),
      ...serverOptions,
      json: toggle('print the answer as JSON')
    },
    details:
      'Searches the lists of components (SBOM) that were sent with the releases that are in place now, on the server and on\n' +
      'nodes. It says which projects have sent none, because nothing is known of these. A deploy token searches its own\n' +
      `project. The exit code is 1 if nothing was found.\n\n${projectDetails('viewer')}`,
    examples: [
      ['search-components log4j', 'find every release in place that contains it'],
      ['search-components log4j-core --version 2.14', 'find 2.14, 2.14.0 and 2.14.1']
    ],
    async run({ options, operands }, context) {
      const { version, json, ...server } = options
      const { output } = context
      const { client } = await openProject(context, server)
      const answer = await client.call('GET /api/components', {
        query: { name: operands.name, ...(version !== undefined && { version }) }
      })
      const { components, unknown, searched, truncated } = answer
      if (json) output.json(answer)
      else {
        output.list(false, components, {
          empty: `Not found in ${searched === 1 ? 'the list' : `the ${searched} lists`} of components of what is in place`,
          columns: [
            { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 24 },
            { header: 'COMPONENT', cell: ({ name }) => name, shrinkTo: 16 },
            { header: 'VERSION', cell: ({ version }) => version ?? '-' },
            { header: 'RELEASE', cell: ({ deployId }) => deployId },
            { header: 'SINCE', cell: ({ since }) => relativeTime(since, Date.now()), drop: 'last' },
            { header: 'WHERE', cell: each => componentPlaceOf(each), shrinkTo: 10, drop: 'last' }
          ]
        })
        if (truncated) output.note(`Only the first ${components.length} are listed`)
        if (unknown.length > 0) {
          const names = unknown.slice(0, shownProjects).map(({ projectName }) => oneLine(projectName))
          const more = unknown.length - names.length
          output.note(`Without a list of components: ${names.join(', ')}${more === 0 ? '' : ` and ${more} more`}`)
        }
      }
      return components.length === 0 ? exitCodes.failed : exitCodes.success
    }
  })
} satisfies Family

function lastMessage(row: ListedDeployment | undefined): string {
  return row === undefined ? '' : shownMessage(row)
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

type Options = AdminOptions & { yes: boolean; json: boolean }

/** Allows or refuses scripts of clients in all projects. Other settings differ from project to project. */
async function setAll(fields: object, options: Options, context: Context): Promise<number> {
  const { output } = context
  const { allowClientScripts, ...others } = fields as { allowClientScripts?: boolean | null }
  if (allowClientScripts === undefined || Object.keys(others).length > 0)
    throw usage('--all', '--all is only possible with --client-scripts, and with no other setting')
  const isSure = confirmation(context, { yes: options.yes, what: 'Changing all projects' })
  const { client } = await openAdmin(context, options)
  const projects = await client.call('GET /api/projects')
  const words = countOf(projects.length, 'project')
  if (!(await isSure(`Change allowClientScripts of ${words}?`))) return exitCodes.failed
  const action = { action: 'setClientScripts', categoryId: null, allowClientScripts } as const
  const outcome: BulkOutcome = { done: 0, failed: [] }
  for (let from = 0; from < projects.length; from += maxBulk) {
    const ids = projects.slice(from, from + maxBulk).map(({ id }) => id)
    const { done, failed } = await client.call('POST /api/projects/bulk', { body: { ids, ...action } })
    outcome.done += done
    outcome.failed.push(...failed)
  }
  output.result(options.json, outcome, `Changed allowClientScripts of ${countOf(outcome.done, 'project')}`)
  for (const { id, error } of outcome.failed) output.warn(`${id}: ${error}`)
  return outcome.failed.length === 0 ? exitCodes.success : exitCodes.failed
}

/** Returns the token of a project. Refuses: `role_too_low` if the server hides it from the caller. */
function visible({ token, name }: ShownProject): string {
  if (token !== null) return token
  const sentence = `Permission denied: the deploy token of ${oneLine(name)} is shown to the role "admin" only`
  throw new Refusal('forbidden', 'role_too_low', sentence)
}

/** Returns where a project is deployed: its target, or its nodes. */
function placeOf({ id, deployPath }: ShownProject, { placed }: Marks): string {
  const found = placed.find(({ projectId }) => projectId === id)
  if (found === undefined) return deployPath
  const { first, nodes } = found
  return nodes === 1 ? `on ${first}` : `on ${first} and ${countOf(nodes - 1, 'other node')}`
}

/** Names of projects in a line of output. */
const shownProjects = 5

function componentPlaceOf({
  target,
  nodes,
  nodeCount
}: {
  target: string | null
  nodes: string[]
  nodeCount: number
}): string {
  if (nodeCount === 0) return target ?? 'the server'
  const more = nodeCount - nodes.length
  return `${nodes.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** First digits of a tree, enough to tell trees apart. */
const treeDigits = 8

/** Prints which release is in place in each project of an application, and how far it is from the first environment. */
function printMatrix(output: Output, families: readonly ProjectFamily[], nowMs: number): void {
  if (families.length === 0) {
    output.note(
      'No two projects are of one application. Those are: shop and shop-staging, or both with the tag app:shop.'
    )
    return
  }
  const rows = families.flatMap(({ name, members }) => {
    const first = members.find(({ release }) => release !== null)
    return members.map((member, at) => ({ family: at === 0 ? name : '', member, first }))
  })
  output.table(rows, [
    { header: 'APPLICATION', cell: ({ family }) => family, shrinkTo: 8, drop: 'last' },
    { header: 'ENV', cell: ({ member }) => member.env, shrinkTo: 10 },
    { header: 'PROJECT', cell: ({ member }) => member.projectName, shrinkTo: 24 },
    { header: 'RELEASE', cell: ({ member }) => releaseWords(member), shrinkTo: 10 },
    { header: 'TREE', cell: ({ member }) => member.release?.treeSha256?.slice(0, treeDigits) ?? '', drop: 'first' },
    { header: 'SINCE', cell: ({ member }) => relativeTime(member.release?.since ?? null, nowMs), drop: 'last' },
    { header: 'DIFFERENCE', cell: ({ member, first }) => differenceOf(member, first), shrinkTo: 10 }
  ])
  const next = promotionOf(families)
  if (next !== null) output.note(`Next: svc promote ${oneLine(next.from)} ${oneLine(next.to)}`)
}

function releaseWords({ release, nodes }: FamilyMember): string {
  if (release === null) return 'nothing in place'
  const words = release.message || release.provenance?.subject || originWords(release.provenance) || release.id
  return nodes === null ? words : `${words} (${nodes.have} of ${nodes.all} nodes)`
}

function differenceOf(member: FamilyMember, first: FamilyMember | undefined): string {
  const found = first === undefined ? null : distanceWords(member, first)
  if (found === null) return ''
  const { words, count, apartMs } = found
  return words
    .replace('{count}', String(count))
    .replace('{time}', humanDuration(apartMs ?? 0))
    .replace('{env}', () => first?.env ?? '')
}

/** Returns the first promotion that would change something, if there is only one. */
function promotionOf(families: readonly ProjectFamily[]): { from: string; to: string } | null {
  const found = families.flatMap(({ members }) =>
    members.flatMap(({ projectName, release, promotesTo }) =>
      members
        .filter(({ projectId }) => release?.isPromotable === true && promotesTo.includes(projectId))
        .filter(other => other.release?.treeSha256 !== release?.treeSha256)
        .map(other => ({ from: projectName, to: other.projectName }))
    )
  )
  return found.length === 1 ? (found[0] ?? null) : null
}

/** Refuses (`invalid`, server_too_old) an older server, which ignores fields that it does not know. */
function refuseIgnored(fields: object, project: object): void {
  const ignored = Object.keys(fields).filter(key => !(key in project))
  if (ignored.length === 0) return
  const rest = ignored.length < Object.keys(fields).length ? 'The rest was changed' : 'Nothing was changed'
  const sentence = `The server does not know ${ignored.join(', ')}: it is older than this svc. ${rest}. Update the server`
  throw new Refusal('invalid', 'server_too_old', sentence)
}
