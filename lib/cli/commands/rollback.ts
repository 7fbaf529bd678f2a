import type { Client } from '../client/client.js'
import { planRun, startRun, listDeployments, readDeployment } from '../client/runs.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import type { Deployment } from '../../model/deployment.js'
import { openProjectAsAdmin, projectIdOf, openProject, type ProjectWish, openAdmin } from '../client/session.js'
import { defineCommand, exitCodes, type Family, option, toggle, usage, type Context } from '../command.js'
import {
  adminDetails,
  checkMessage,
  projectOperand,
  deploymentOptions,
  projectDetails,
  sharedOptions,
  waitingOperand,
  adminOptions,
  durationOption
} from '../common-options.js'
import { exactOptions, planFirst, runAndReport, showRollback, undoLast } from '../exact-run.js'
import { messageWords, originWords } from '../terminal/deployments.js'
import { confirmation } from '../terminal/prompt.js'
import { relativeTime } from '../terminal/words.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { findProject } from '../client/named-project.js'
import {
  atOption,
  confirmOptions,
  noteStart,
  overrideOption,
  readAt,
  readConfirmOptions,
  receiptOption,
  refuseLate,
  waitOption
} from '../push-options.js'
import type { RollbackPlan } from '../../model/plan.js'

/** Number of deployments to search for one to roll back to: the most that the server lists at once. */
const searchedDeployments = 500

const heldOperands = { deployId: waitingOperand } as const

const project = (help: string) => ({ required: true, complete: 'projects', help }) as const

/** The commands that deploy a release of before or of another project, and those that settle a deployment which can still go back. */
export const commands = {
  rollback: defineCommand({
    operands: { projectId: projectOperand },
    options: {
      to: option('deployId', 'deployment whose archive is deployed again', { complete: 'deployments' }),
      exact: toggle('restore the files as they were after that deployment, and remove newer ones'),
      overlay: toggle('put the files of its archive over the others, and remove none'),
      undo: toggle('restore the files before the last deployment, exactly'),
      ...exactOptions
    },
    details:
      'Without --to, svc chooses among the successful deployments whose archive is kept. If the latest deployment\n' +
      'succeeded, it takes the one before it, else the newest. After a rollback it takes the one before the\n' +
      'deployment that was rolled back to, so each rollback steps back further. It prints the choice and the reason,\n' +
      'and fails if there is nothing earlier. Use --to to choose another deployment.\n\n' +
      'An overlay replaces files and removes none. With --exact, the target becomes what it was after that deployment:\n' +
      'paths, contents, permissions and times. Files that were edited since stay, unless --force is given. Without\n' +
      'either option, the policy "rollback" of the project decides. If the policy "drift" refuses to replace edited\n' +
      'files, an overlay needs --force, too. A project on nodes takes overlays only, without --force.\n\n' +
      '--undo restores the files as they were before the last deployment, whatever it was: what it added is removed,\n' +
      'what it replaced or removed comes back, with contents, permissions and times. An undo is a deployment, so it can\n' +
      `be undone, too.\n\n${adminDetails('operator')}`,
    examples: [
      ['rollback', 'go back by one deployment'],
      ['rollback --undo', 'restore exactly the files before the last deployment'],
      ['rollback --to dep_abcdefghijklmnop --yes', 'roll back to a deployment, from a script'],
      ['rollback --to dep_abcdefghijklmnop --exact --dry-run', 'show what an exact rollback would do']
    ],
    async run({ options, operands }, context) {
      const { env, server, token, to, message, json, force, exact } = options
      const isDry = options['dry-run']
      const choice = (['to', 'exact', 'overlay'] as const).find(flag => options[flag])
      if (options.undo && choice !== undefined) throw usage('--undo', `--undo and --${choice} exclude each other`)
      if (options.undo) return undoLast(operands.projectId, options, context)
      checkMessage(message)
      if (exact && options.overlay) throw usage('--exact', '--exact and --overlay exclude each other')
      const mode = exact ? ('exact' as const) : options.overlay ? ('overlay' as const) : undefined
      const isSure = confirmation(context, { yes: options.yes || isDry, what: 'A rollback', done: 'rolled back' })
      const wish = { env, server, token, project: operands.projectId }
      const { client, config } = await openProjectAsAdmin(context, wish, wish.project === undefined && to === undefined)
      const { source, why } =
        to === undefined
          ? await choose(client, projectIdOf(context, config), exact)
          : await named(client, to, config.projectId?.value)
      if (why !== null) context.output.note(`Chosen: ${source.id}, ${why}.`)
      if (isDry || exact || force) refuseOlderServer(source)
      const ask = (signal: AbortSignal) =>
        planRun(client, 'POST /api/deployments/:id/rollback', { id: source.id, mode, force, signal })
      if (isDry) return showRollback(ask, { json, force }, context)
      if (exact) await planFirst(ask, force, context)
      if (!(await isSure(`Roll back ${describe(source)}`))) return exitCodes.failed
      const given = { env, server, project: operands.projectId, token }
      context.output.note(`Rolling back ${describe(source)}`)
      const { projectId, provenance = null } = source
      const asked = { message, ...(mode !== undefined && { mode }), ...(force && { force }) }
      return runAndReport(
        client,
        {
          start: signal => startRun(client, 'POST /api/deployments/:id/rollback', { id: source.id, ...asked, signal }),
          noun: 'rollback',
          done: `rolled back to ${source.id}`,
          projectId,
          provenance,
          message,
          json,
          given,
          witness: options.witness,
          receipt: options.receipt
        },
        context
      )
    }
  }),

  undo: defineCommand({
    operands: { projectId: projectOperand },
    options: { ...exactOptions },
    details:
      'Restores the files of the target as they were before the last deployment: what it added is removed, what it\n' +
      'replaced or removed comes back, with contents, permissions and times. Files that were edited since stay, unless\n' +
      `--force is given. An undo is a deployment, so it can be undone, too.\n\n${adminDetails('operator')}`,
    examples: [
      ['undo --dry-run', 'show what an undo would do'],
      ['undo', 'undo the last deployment'],
      ['undo shop --yes', 'undo from a script']
    ],
    run: ({ options, operands: { projectId } }, context) => undoLast(projectId, options, context)
  }),

  confirm: defineCommand({
    operands: heldOperands,
    options: {
      no: toggle('put the earlier files back, also while the checks run'),
      ...deploymentOptions,
      json: sharedOptions.json
    },
    details:
      'Settles a deployment that waits to be confirmed. Without a confirmation the earlier files are put back.\n\n' +
      '--no puts them back at once, also while the checks of the deployment run. For a deployment that is settled, use\n' +
      `"svc rollback".\n\n${projectDetails('deployer')}`,
    examples: [
      ['confirm', 'confirm the deployment of the configured project'],
      ['confirm dep_abcdefghijklmnop', 'confirm one deployment'],
      ['confirm --no', 'put back the files before it']
    ],
    async run({ options, operands }, context) {
      if (options.no) return revert(operands.deployId, options, context)
      const { client, deployId } = await openHeld(context, options, operands.deployId)
      const answer = await client.call('POST /api/deployments/:id/confirm', { id: deployId })
      context.output.result(options.json, answer, `Confirmed ${deployId}`)
      return exitCodes.success
    }
  }),

  revert: defineCommand({
    operands: heldOperands,
    options: { ...deploymentOptions, json: sharedOptions.json },
    details:
      'Puts the earlier files back, while the checks of the deployment run or while it waits to be confirmed. For a\n' +
      `deployment that is settled, use "svc rollback".\n\n${projectDetails('deployer')}`,
    examples: [
      ['revert', 'put back the files before the deployment of the configured project'],
      ['revert dep_abcdefghijklmnop', 'put back the files before one deployment']
    ],
    run: ({ options, operands: { deployId } }, context) => revert(deployId, options, context)
  }),

  promote: defineCommand({
    operands: {
      from: project('project whose release is promoted: its name or id'),
      to: project('project that gets it')
    },
    options: {
      release: option('deployId', 'another deployment of the first project than the live one', {
        complete: 'deployments'
      }),
      confirm: confirmOptions.confirm,
      wait: { ...waitOption.wait, help: 'wait for a lock or a window; without a value: 10m' },
      ...overrideOption,
      ...atOption,
      ...receiptOption,
      'dry-run': toggle('only show what would happen'),
      message: sharedOptions.message,
      yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
      ...adminOptions,
      json: toggle('print the result as JSON; the deployment output goes to standard error')
    },
    details:
      'Deploys the same archive that is live in the first project to the second one, with the scripts of the second one.\n' +
      'It shows what would change, and asks. The record says which deployment it was (promotedFrom). If the policy\n' +
      '"promoteFrom" of a project names another one, that is the only way to deploy to it.\n\n' +
      adminDetails('deployer'),
    examples: [
      ['promote staging production', 'deploy what is live in staging to production'],
      ['promote staging production --dry-run', 'show what would change'],
      ['promote staging production --yes --wait=12h', 'begin when the next window opens'],
      ['promote staging production --yes --confirm 5m', 'from a script, to be confirmed within five minutes']
    ],
    async run({ options, operands }, context) {
      const { env, server, token, release, message, override, json } = options
      const waitMs = options.wait === undefined ? null : durationOption('--wait', options.wait)
      const startAt = readAt(options.at, Date.now())
      refuseLate(options)
      checkMessage(message)
      const isDry = options['dry-run']
      const isSure = confirmation(context, { yes: options.yes || isDry, what: 'A promotion', done: 'promoted' })
      const { seconds } = readConfirmOptions(options.confirm, undefined)
      const { client } = await openAdmin(context, { env, server, token })
      const [source, target] = [await findProject(client, operands.from), await findProject(client, operands.to)]
      const from = release ?? (await liveRelease(client, source))
      const wish = { confirmSeconds: seconds ?? undefined, override, startAt }
      const plan = { json, force: false, verb: 'puts in place' }
      const planned = (signal: AbortSignal): Promise<RollbackPlan> =>
        planRun(client, 'POST /api/projects/:id/promote', { id: target.id, from, ...wish, signal })
      const show = (): Promise<number> => showRollback(planned, plan, context)
      noteStart(context, startAt)
      if (isDry) return show()
      if (!options.yes && !json) await show()
      const row = await readDeployment(client, from, { output: 'end' })
      const what = oneLine(`${from} (${messageWords(row) || 'no message'}) of ${source.name} to ${target.name}`)
      if (!(await isSure(`Promote ${what}`))) return exitCodes.failed
      context.output.note(`Promoting ${what}`)
      return runAndReport(
        client,
        {
          start: signal => {
            const given = { id: target.id, from, message, ...wish, signal }
            const start = () => startRun(client, 'POST /api/projects/:id/promote', given)
            return waitMs === null
              ? start()
              : startWhenFree(start, { limitMs: waitMs, signal, note: context.output.note })
          },
          noun: 'promotion',
          done: `promoted ${from} to ${oneLine(target.name)}`,
          projectId: target.id,
          provenance: row.provenance ?? null,
          message,
          json,
          given: { env, server, token },
          receipt: options.receipt,
          isScheduled: startAt !== undefined
        },
        context
      )
    }
  })
} satisfies Family

/** Refuses (`unsupported`, server_too_old) a server that would ignore what is asked and overlay the archive at once. */
function refuseOlderServer(source: Partial<Deployment>): void {
  if (source.exact !== undefined) return
  const sentence = 'This server is too old for --exact, --force and --dry-run. Nothing was changed. Update the server'
  throw new Refusal('unsupported', 'server_too_old', sentence)
}

interface Choice {
  source: Deployment
  /** Reason for the choice; null if the user named the deployment. */
  why: string | null
}

/**
 * Returns the deployment whose files a successful one put in place: for a rollback the one that it deployed again, for
 * an undo the success before the undone one. Null if its record is not in the list, which begins with the newest.
 */
function originOf(deployment: Deployment, newest: readonly Deployment[]): Deployment | null {
  const { rollbackOf, undoOf = null } = deployment
  if (rollbackOf === null && undoOf === null) return deployment
  const at = newest.findIndex(({ id }) => id === (undoOf ?? rollbackOf))
  const isBefore = ({ status, triggerSource }: Deployment): boolean =>
    status === 'success' && triggerSource !== 'repair'
  const source = undoOf === null ? newest[at] : at === -1 ? undefined : newest.slice(at + 1).find(isBefore)
  // A rollback is newer than what it deploys again, so this ends.
  return source === undefined || source.id === deployment.id ? null : originOf(source, newest)
}

/**
 * Chooses among the successful deployments that have an archive: the one before the latest deployment if that
 * succeeded, before its origin if it was a rollback, else the newest one. Repairs do not count: they put back the files
 * of another deployment.
 */
async function choose(client: Client, projectId: string, isExact: boolean): Promise<Choice> {
  const newest = await listDeployments(client, { projectId, limit: searchedDeployments })
  const last = newest.find(({ triggerSource }) => triggerSource !== 'repair')
  const successes = await listDeployments(client, { projectId, status: 'success', limit: searchedDeployments })
  const kept = successes.filter(({ triggerSource, hasArtifact, exact, placed }) =>
    isExact ? placed !== null && triggerSource !== 'repair' : hasArtifact && !exact
  )
  const origin = last?.status === 'success' ? (originOf(last, newest) ?? last) : null
  const newer = new Set(origin === null ? [last?.id] : newest.slice(0, newest.indexOf(origin) + 1).map(({ id }) => id))
  const source = kept.find(({ id }) => !newer.has(id))
  if (source !== undefined) return { source, why: reason(last, origin) }
  const isNew = last === undefined
  const why = isNew
    ? 'nothing has been deployed yet'
    : `no archive of a success before ${origin?.id ?? last.id} is kept. Use --to to deploy another one again`
  throw new Refusal('conflict', 'nothing_to_roll_back_to', `The project ${projectId} cannot be rolled back: ${why}`)
}

function reason(last: Deployment | undefined, origin: Deployment | null): string {
  if (last === undefined) return 'the latest success'
  if (origin !== null && origin.id !== last.id) return `the success before ${origin.id}, which ${last.id} had put back`
  if (last.status === 'success') return `the success before the latest deployment (${last.id} succeeded)`
  return `the latest success (the latest deployment, ${last.id}, ${last.status === 'failed' ? 'failed' : 'has not finished'})`
}

async function named(client: Client, deployId: string, projectId: string | undefined): Promise<Choice> {
  const source = await readDeployment(client, deployId)
  if (projectId === undefined || source.projectId === projectId) return { source, why: null }
  throw new Refusal(
    'conflict',
    'other_project',
    `--to cannot be "${deployId}": it belongs to the project ${source.projectId}`
  )
}

function describe(source: Deployment): string {
  const words = messageWords(source)
  const origin = originWords(source.provenance)
  const details = [relativeTime(source.startTime, Date.now()), words && `"${words}"`, origin].filter(Boolean)
  return oneLine(`${source.projectName} to ${source.id} (${details.join(', ')})`)
}

/** Puts back the files before a deployment that is not settled. Returns the exit code. */
async function revert(
  named: string | undefined,
  options: ProjectWish & { json: boolean },
  context: Context
): Promise<number> {
  const { client, deployId } = await openHeld(context, options, named)
  const asked = client.call('POST /api/deployments/:id/revert', { id: deployId })
  const answer = (await asked) as { success: boolean; deployment: Deployment }
  context.output.result(
    options.json,
    answer,
    () => `${answer.success ? 'Reverted' : 'Cannot revert'} ${deployId}: ${answer.deployment.errorMessage ?? ''}`
  )
  return answer.success ? exitCodes.success : exitCodes.failed
}

/** Opens the API for a deployment: the named one, or the one of the project that waits. */
async function openHeld(
  context: Context,
  options: ProjectWish,
  deployId: string | undefined
): Promise<{ client: Client; deployId: string }> {
  const { client, config } = await openProject(context, options, deployId === undefined)
  return { client, deployId: deployId ?? (await heldDeploymentId(client, { context, config })) }
}

/** Returns the id of the project's deployment whose earlier files can still be put back. Refuses if there is none. */
export async function heldDeploymentId(
  client: Pick<Client, 'call'>,
  { context, config }: { context: Context; config: EffectiveConfig }
): Promise<string> {
  const projectId = projectIdOf(context, config)
  const running = await listDeployments(client, { projectId, status: 'running', output: 'none', limit: 1 })
  const held = running.find(({ heldFor }) => heldFor !== null && heldFor !== undefined)
  if (held !== undefined) return held.id
  const [last] = await listDeployments(client, { projectId, output: 'none', limit: 1 })
  const name = last === undefined ? projectId : oneLine(last.projectName)
  throw new Refusal('conflict', 'not_waiting', `No deployment of ${name} waits for its checks or a confirmation`)
}

/** Starts a promotion as soon as no lock and no closed window refuses it. Only such a refusal is followed by a repetition. */
async function startWhenFree<T>(
  start: () => Promise<T>,
  given: { limitMs: number; signal: AbortSignal; note(line: string): void }
): Promise<T> {
  const { endsByItself, waitUntilFree } = await import('../pack/upload-archive.js')
  const free = (result: () => T) => ({ deploymentsAhead: 0, result })
  const check = () =>
    start().then(
      started => free(() => started),
      (error: unknown) => {
        if (endsByItself(error)) throw error
        return free(() => {
          throw error
        })
      }
    )
  return (await waitUntilFree({ check, ...given })).result()
}

/** Returns the deployment whose files a project has, also on its nodes. */
async function liveRelease(client: Client, { id, name }: { id: string; name: string }): Promise<string> {
  const { live, releases = [] } = await client.call('GET /api/projects/:id/overview', { id })
  const found = live?.id ?? releases[0]?.deployId
  if (releases.length > 1)
    throw new Refusal(
      'conflict',
      'several_releases',
      `The nodes of "${name}" have different releases: name one with --release`
    )
  if (found != null) return found
  throw new Refusal('not_found', 'nothing_live', `Nothing is live in "${name}": deploy to it first`)
}
