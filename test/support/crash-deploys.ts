/* Of the load of a crash run: uploads, rollbacks, cancels and marks in one project. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FormFields } from './client.js'
import type { Answer } from './crash-client.js'
import { createRegister, messageOf, type DeploymentModel, type ProjectModel } from './crash-model.js'
import { isGood, type LoadNeeds, type Writer } from './crash-needs.js'
import { mayFail, scriptOf, someScripts } from './crash-scripts.js'
import { makeSite, type Site } from './crash-site.js'
import { changesOf } from './sent-changes.js'

/** Works on a project, without the admin token while that is being changed. */
export const deploys =
  (project: ProjectModel, isTokenRound: boolean): Writer =>
  async needs => {
    const { random } = needs
    const choice = random.below(isTokenRound ? 12 : 20)
    if (choice < 10) return uploads(needs, project, someScripts(random, needs.places.proofs))
    if (choice < 12) return uploads(needs, project, [], true)
    if (choice < 14) return cancels(needs, project)
    if (choice < 17) return rollsBack(needs, project)
    if (choice < 18) return marks(needs, project)
    await sleep(random.below(80))
  }

/** Uploads an archive and follows the deployment to its end. */
export async function uploads(
  needs: LoadNeeds,
  project: ProjectModel,
  fields: Array<[string, string]>,
  isDamaged = false
): Promise<void> {
  const { client, random, reached } = needs
  const number = needs.next()
  let site = makeSite(random, { number, files: project.files, isDamaged })
  let file: FormFields = [['file', { filename: 'a.zip', bytes: site.zip }]]
  const changes = isDamaged || random.below(2) === 0 ? null : await changesSince(needs, project, site)
  if (changes !== null) {
    file = changes.fields
    site = { ...site, tree: new Map([...site.tree].map(([path, line]) => [path, changes.before(path) ?? line])) }
  }
  const deployment = plan(project, number, isDamaged ? null : site)
  deployment.outcome = isDamaged || mayFail(fields) ? 'failed' : 'success'
  const form: FormFields = [['projectId', project.id], ['message', messageOf(number)], ...fields, ...file]
  const answer = await client.upload(project.token.settled(), form, {
    onHalf: () => reached('an upload is half sent'),
    onSent: () => reached(changes === null ? 'an upload was sent' : 'changes were sent'),
    onHead(status, id) {
      if (status === 200) acknowledge(deployment, id)
      reached('an upload is acknowledged')
    }
  })
  settle(needs, project, deployment, answer, `upload of ${messageOf(number)}`)
}

/** Returns what changed since a kept release; null: there is none, its files are not known, or the server was killed. */
async function changesSince(
  { client }: LoadNeeds,
  { id, token, deployments }: ProjectModel,
  { entries }: Site
): Promise<{ fields: FormFields; before(path: string): string | undefined } | null> {
  const own = token.settled()
  const permit = await client.call('GET', `/api/deploy/check?projectId=${id}`, own)
  const deployId = permit?.body?.base?.deployId as string | undefined
  const base = [...deployments.values()].find(each => each.id !== null && each.id === deployId)?.site
  if (base == null) return null
  const tree = await client.bytes(`/api/deploy/base?projectId=${id}&deployId=${deployId}`, own)
  if (tree === null) return null
  const { treeSha256, delta, contents, same } = changesOf(entries, tree)
  const fields: FormFields = [
    ['base', deployId as string],
    ['treeSha256', treeSha256],
    ['tree', { filename: 'tree', bytes: delta }],
    ['file', { filename: 'a.zip', bytes: contents }]
  ]
  return { fields, before: path => (same.has(path) ? base.tree.get(path) : undefined) }
}

function plan(project: ProjectModel, number: number, site: DeploymentModel['site']): DeploymentModel {
  const deployment: DeploymentModel = {
    number,
    site,
    outcome: null,
    mayStay: false,
    id: null,
    status: createRegister<string | null>(null)
  }
  project.deployments.set(number, deployment)
  return deployment
}

function acknowledge(deployment: DeploymentModel, id: string | undefined): void {
  deployment.id = id ?? null
}

/** Records the result of a deployment from its answer. */
function settle(
  needs: LoadNeeds,
  project: ProjectModel,
  deployment: DeploymentModel,
  answer: Answer | null,
  what: string
): void {
  // Its project may have gone; a rollback's archive, too; and so may its place in the queue.
  if (!isGood(needs, what, answer, [404, 409, 429])) {
    if (answer !== null) project.deployments.delete(deployment.number)
    return
  }
  const status = answer.body?.status as string | undefined
  // What is not recorded is no promise.
  if (/is not recorded yet/.test(answer.text)) return
  const isExpected =
    deployment.outcome === null || status === deployment.outcome || needs.disk !== null || needs.isOver()
  if (!isExpected && status !== undefined)
    needs.complain(`${what}: ${status}, not ${deployment.outcome}: ${answer.text.slice(-400)}`)
  if (status === undefined) needs.complain(`${what}: its answer ends without its status: ${answer.text.slice(-200)}`)
  else if (deployment.status.settled() === null) deployment.status.found(status)
}

async function rollsBack(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, reached } = needs
  const sources = [...project.deployments.values()]
    .filter(({ id, site, mayStay }) => id !== null && site !== null && !mayStay)
    .slice(-6)
  if (sources.length === 0) return
  const source = random.oneOf(sources)
  const number = needs.next()
  const deployment = plan(project, number, source.site)
  if (source.outcome === 'success') deployment.outcome = 'success'
  const headers = { accept: 'application/x-ndjson' }
  const answer = await client.call(
    'POST',
    `/api/deployments/${source.id}/rollback`,
    model.adminToken.settled(),
    { message: messageOf(number) },
    headers,
    {
      onSent: () => reached('a rollback is asked for'),
      onHead: (status, id) => void (status === 200 && acknowledge(deployment, id))
    }
  )
  settle(needs, project, deployment, answer, `rollback ${messageOf(number)} to ${source.id}`)
}

/** Starts a deployment whose script never ends by itself, and ends it. */
async function cancels(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, places, reached } = needs
  const number = needs.next()
  const site = makeSite(random, { number, files: project.files })
  const deployment = plan(project, number, site)
  deployment.mayStay = true
  const step = random.oneOf(['pre', 'post'] as const)
  const script: [string, string] = [`${step}Deploy`, scriptOf('stays', step, places.proofs)]
  let begun: (() => void) | undefined
  const hasBegun = new Promise<void>(resolve => (begun = resolve))
  const upload = client.upload(
    project.token.settled(),
    [
      ['projectId', project.id],
      ['message', messageOf(number)],
      script,
      ['file', { filename: 'a.zip', bytes: site.zip }]
    ],
    { onHead: (status, id) => (status === 200 && acknowledge(deployment, id), begun?.()) }
  )
  await Promise.race([hasBegun, upload])
  await sleep(random.below(200))
  if (deployment.id !== null && !needs.isOver()) {
    const path = `/api/deployments/${deployment.id}/cancel`
    const answer = await client.call(
      'POST',
      path,
      model.adminToken.settled(),
      undefined,
      {},
      { onSent: () => reached('a cancel is asked for') }
    )
    if (isGood(needs, `cancel of ${messageOf(number)}`, answer, [404])) deployment.status.found('failed')
  }
  settle(needs, project, deployment, await upload, `upload of ${messageOf(number)}, to be cancelled`)
}

async function marks(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, reached } = needs
  const ended = [...project.deployments.values()].filter(
    ({ id, status }) => id !== null && status.settled() !== null && status.allowed().length === 1
  )
  if (ended.length === 0) return
  const { id, status } = random.oneOf(ended)
  const wanted = random.oneOf(['success', 'failed'])
  const asked = status.ask(wanted)
  const path = `/api/deployments/${id}/status`
  const answer = await client.call(
    'PATCH',
    path,
    model.adminToken.settled(),
    { status: wanted },
    {},
    { onSent: () => reached('a mark is asked for') }
  )
  if (isGood(needs, `mark of ${id}`, answer, [404])) asked.acknowledged()
  else if (answer !== null) asked.refused()
}
