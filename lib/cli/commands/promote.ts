import type { Client } from '../client/client.js'
import { planRun, startRun } from '../client/runs.js'
import { readDeployment } from '../client/deployments.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes, type Family, option, toggle } from '../command.js'
import { adminDetails, adminOptions, checkMessage, durationOption, sharedOptions } from '../common-options.js'
import { runAndReport, showRollback } from '../exact-run.js'
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
import { messageWords } from '../terminal/deployments.js'
import { confirmation } from '../terminal/prompt.js'

const project = (help: string) => ({ required: true, complete: 'projects', help }) as const

/** The command that deploys the release of one project to another one. */
export const commands = {
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
