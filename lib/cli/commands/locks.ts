import type { Client } from '../client/client.js'
import { sayingWait } from '../client/runs.js'
import { actorText } from '../../base/shared/api.js'
import { oneLine } from '../../base/text.js'
import { lockSentence, type Maintenance, ownerWords } from '../../model/marks.js'
import { type AdminOptions, openAdmin, openNamed, openProject } from '../client/session.js'
import { type Context, defineCommand, type Family, option, toggle, usage } from '../command.js'
import { durationOption, projectOperand, projectDetails, serverOptions } from '../common-options.js'
import { minuteOf, relativeTime } from '../terminal/words.js'
import type { Given } from '../../api/map/routes.js'

/** Options of the commands that place and remove locks. */
const lockOptions = {
  all: toggle('the lock of the whole server instead of one project'),
  ...serverOptions,
  json: toggle('print the lock as JSON')
} as const

/** The operand of these commands. */
const lockOperands = { project: projectOperand } as const

/** Opens the API, and returns the id of the project that the command line names, or null for the whole server. */
async function openLockPlace(
  context: Context,
  options: AdminOptions & { all: boolean },
  project: string | undefined
): Promise<{ client: Client; projectId: string | null }> {
  const { all } = options
  if (all && project !== undefined) throw usage('--all', 'Give a project or --all, not both')
  if (all) return { client: (await openAdmin(context, options)).client, projectId: null }
  return openNamed(context, { ...options, project })
}

/** Options of the commands for maintenance. */
const maintenanceOptions = { ...serverOptions, json: toggle('print {maintenance} as JSON') } as const

/** Placing a file waits for deployments, and for the disk. */
const answerLimitMs = 5 * 60_000

/** Begins or ends the maintenance of a project. Resolves when its file is placed or removed. */
function setMaintenance(
  { client, projectId, output }: { client: Client; projectId: string; output: Context['output'] },
  body: Given<'PUT /api/projects/:id/maintenance'>['body']
) {
  return sayingWait({ client, projectId, note: output.note }, () =>
    client.call('PUT /api/projects/:id/maintenance', { id: projectId, body, answerLimitMs })
  )
}

/** Returns the sentence that says whether a project is in maintenance. */
export function maintenanceSentence(maintenance: Maintenance | null): string {
  if (maintenance === null) return 'Maintenance is off'
  const { since, by, reason } = maintenance
  return `Maintenance is on since ${minuteOf(since)}, by ${actorText(by)}${reason === null ? '' : `: "${reason}"`}`
}

/** The commands for locks and maintenance. */
export const commands = {
  lock: defineCommand({
    fields: { seconds: { duration: '--for' } },
    operands: lockOperands,
    options: {
      reason: option('text', 'why; everyone whose deployment is refused reads it', { alias: 'm' }),
      for: option('time', 'when the lock expires, from 1m to 30d; default: 1d'),
      renew: toggle('replace the reason and the end of your own lock'),
      ...lockOptions
    },
    details:
      'A locked project refuses pushes and rollbacks. A queued deployment fails when its turn comes; a running one\n' +
      'continues. A lock always expires. "svc push --wait" waits for its end.\n\n' +
      `${projectDetails('operator')} A deploy token cannot use --all.`,
    examples: [
      ['lock shop --reason "audit until Friday" --for 2d', 'refuse deployments of a project for two days'],
      ['lock --all --reason "moving to a new disk" --for 30m', 'refuse deployments of every project']
    ],
    async run({ options, operands }, context) {
      const { reason, renew, json } = options
      if (reason === undefined) throw usage('--reason', 'The reason is missing: say why with --reason')
      const seconds =
        options.for === undefined ? {} : { seconds: Math.round(durationOption('--for', options.for) / 1000) }
      const { client, projectId } = await openLockPlace(context, options, operands.project)
      const body = { reason, ...seconds, ...(renew && { renew }) }
      const { lock } = await (projectId === null
        ? client.call('PUT /api/lock', { body })
        : client.call('PUT /api/projects/:id/lock', { id: projectId, body }))
      context.output.result(json, lock, lockSentence(lock, lock.projectName))
    }
  }),

  unlock: defineCommand({
    fields: { takeOver: '--take-over' },
    operands: lockOperands,
    options: {
      'take-over': option('reason', 'remove the lock of another owner, and say why; not with a deploy token'),
      ...lockOptions
    },
    details: projectDetails('operator'),
    examples: [
      ['unlock shop', 'remove your lock of a project'],
      ['unlock shop --take-over "urgent fix"', 'remove the lock of somebody else; the audit log keeps the reason']
    ],
    async run({ options, operands }, context) {
      const { client, projectId } = await openLockPlace(context, options, operands.project)
      const body = { takeOver: options['take-over'] }
      const { lock } = await (projectId === null
        ? client.call('DELETE /api/lock', { body })
        : client.call('DELETE /api/projects/:id/lock', { id: projectId, body }))
      const { projectName, owner, reason } = lock
      const what = projectName === null ? 'the server' : `project ${projectName}`
      context.output.result(
        options.json,
        lock,
        oneLine(`Unlocked ${what}: the lock was of ${ownerWords(owner, projectName)} ("${reason}")`)
      )
    }
  }),

  locks: defineCommand({
    options: { ...serverOptions, json: toggle('print the list as JSON') },
    details: `Projects in maintenance are listed, too: they have no end. With a deploy token, only what concerns its project\nis listed.\n\n${projectDetails('viewer')}`,
    examples: [['locks', 'list the locks of the configured server']],
    async run({ options }, context) {
      const { client } = await openProject(context, options)
      context.output.list(options.json, await client.call('GET /api/locks', { query: { kind: 'all' } }), {
        empty: 'Nothing is locked, and no project is in maintenance.',
        columns: [
          { header: 'KIND', cell: ({ kind }) => kind },
          { header: 'PROJECT', cell: ({ projectName }) => projectName ?? 'the whole server', shrinkTo: 24 },
          { header: 'BY', cell: ({ owner, projectName }) => ownerWords(owner, projectName), shrinkTo: 8, drop: 'last' },
          { header: 'SINCE', cell: ({ createdAt }) => relativeTime(createdAt, Date.now()), drop: 'first' },
          { header: 'UNTIL', cell: ({ expiresAt }) => (expiresAt === null ? '-' : minuteOf(expiresAt)) },
          { header: 'REASON', cell: ({ reason }) => reason ?? '', shrinkTo: 12, wraps: true }
        ]
      })
    }
  }),

  'maintenance on': defineCommand({
    operands: lockOperands,
    options: {
      reason: option('text', 'why; the page that visitors see shows it', { alias: 'm' }),
      force: toggle('replace a file of that name that svc did not place'),
      ...maintenanceOptions
    },
    details:
      'Places a file (the policy maintenanceFile, default .maintenance) in the target. A web server that is configured\n' +
      'to look for it shows it to visitors with status 503; docs/maintenance.md has the configuration for nginx and\n' +
      'Caddy. Deployments are not refused; "svc lock" does that. A running deployment is waited for.\n' +
      `The policy maintenancePage names a page of the site to show instead.\n\n${projectDetails('operator')}`,
    examples: [
      ['maintenance on shop --reason "Back at 18:00"', 'show visitors a page with this sentence'],
      ['maintenance on shop --force', 'also replace a file that svc did not place']
    ],
    async run({ options, operands }, context) {
      const { reason, force, json } = options
      const { client, projectId } = await openNamed(context, { ...options, ...operands })
      const { maintenance } = await setMaintenance(
        { client, projectId, output: context.output },
        { on: true, reason, force }
      )
      context.output.result(json, { maintenance }, oneLine(maintenanceSentence(maintenance)))
    }
  }),

  'maintenance off': defineCommand({
    operands: lockOperands,
    options: { force: toggle('remove the file although somebody changed it'), ...maintenanceOptions },
    details:
      'Removes the file of "svc maintenance on" from the target. With a deploy token, only a maintenance that was begun\n' +
      `with it can be ended.\n\n${projectDetails('operator')}`,
    examples: [['maintenance off shop', 'let visitors in again']],
    async run({ options, operands }, context) {
      const { force, json } = options
      const { client, projectId } = await openNamed(context, { ...options, ...operands })
      const { maintenance } = await setMaintenance({ client, projectId, output: context.output }, { on: false, force })
      context.output.result(json, { maintenance }, maintenanceSentence(maintenance))
    }
  }),

  'maintenance status': defineCommand({
    operands: lockOperands,
    options: maintenanceOptions,
    details: `"svc locks" lists all projects in maintenance.\n\n${projectDetails('viewer')}`,
    examples: [['maintenance status shop', 'find out since when, by whom and why']],
    async run({ options, operands }, context) {
      const { client, projectId } = await openNamed(context, { ...options, ...operands })
      const { maintenance } = await client.call('GET /api/projects/:id/maintenance', { id: projectId })
      context.output.result(options.json, { maintenance }, oneLine(maintenanceSentence(maintenance)))
    }
  })
} satisfies Family
