import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readReceipts, verifyReceipts, readTrustedKey } from '../../lib/core/proof/receipt-chain.js'
import type { Project } from '../../lib/model/project.js'
import { startServeProcess, type ServeProcess } from '../support/serve-process.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'
import { repetitions } from '../support/thorough.js'

/** Every file below a directory with the digest of its contents. */
function snapshot(directory: string): Record<string, string> {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()
  return Object.fromEntries(
    files
      .filter(file => statSync(join(directory, file)).isFile())
      .map(file => [
        file,
        createHash('sha256')
          .update(readFileSync(join(directory, file)))
          .digest('hex')
      ])
  )
}

/** A site that takes a while to extract. */
function largeSite(mark: string): Record<string, string> {
  const noise = randomBytes(8 * 1024).toString('hex')
  const files = Array.from({ length: 300 }, (_, index) => [
    `assets/${index % 17}/${index}.txt`,
    `${mark} ${index} ${noise}`
  ])
  return Object.fromEntries([...files, ['index.html', mark]])
}

async function push(
  server: ServeProcess,
  project: Project,
  zip: Buffer,
  fields: Record<string, string> = {}
): Promise<void> {
  const form = new FormData()
  for (const [name, value] of Object.entries({ projectId: project.id, ...fields })) form.set(name, value)
  form.set('file', new Blob([zip]), 'site.zip')
  const headers = { authorization: `Bearer ${project.token}` }
  const response = await fetch(`${server.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
  await response.text()
}

t.test('a server killed while it deploys leaves the target as it was, or complete', async t => {
  const directory = t.testdir({})
  const target = join(directory, 'www')
  let server = await startServeProcess(t, directory)
  const project = await server.createProject({ name: 'Storefront', deployPath: target })
  const versions = await Promise.all(['first', 'second'].map(mark => zipOf(largeSite(mark))))
  await push(server, project, versions[0] as Buffer)
  const allowed = [snapshot(target)]
  await push(server, project, versions[1] as Buffer)
  // What was replaced is removed after the answer.
  await until(() => !readdirSync(target).some(name => name.startsWith('.svc-')))
  allowed.push(snapshot(target))

  for (let round = 0; round < repetitions(1, 6); round++) {
    const pushed = push(server, project, versions[round % 2] as Buffer).catch(() => {})
    await sleep(20 + round * 20)
    await server.stop('SIGKILL')
    await pushed
    server = await startServeProcess(t, directory)
    const found = snapshot(target)
    t.ok(
      allowed.some(version => JSON.stringify(version) === JSON.stringify(found)),
      `round ${round}: one version, whole`
    )
    t.notOk(
      readdirSync(target).some(name => name.startsWith('.svc-')),
      'nothing of the staging is left'
    )
    for (const { id, status } of await server.deployments(project.id)) {
      t.ok(status === 'success' || status === 'failed', `${id} is final`)
    }
  }
})

t.test('acknowledged writes survive a kill of the server', async t => {
  const directory = t.testdir({})
  let server = await startServeProcess(t, directory)
  const created: string[] = []
  for (let round = 0; round < repetitions(1, 3); round++) {
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const name = `project ${round}.${index}`
        const { id } = await server.createProject({ name, deployPath: join(directory, 'targets', `${round}-${index}`) })
        created.push(id)
      })
    )
    await server.stop('SIGKILL')
    server = await startServeProcess(t, directory)
    const kept = await server.api<Project[]>('GET', '/api/projects')
    t.same(kept.map(({ id }) => id).sort(), [...created].sort(), `after round ${round}`)
  }
})

t.test('a deployment that was running has failed after the restart, and its output says why', async t => {
  const directory = t.testdir({})
  let server = await startServeProcess(t, directory)
  const project = await server.createProject({ name: 'Storefront', deployPath: join(directory, 'www') })
  const upload = await server.upload(project, { 'index.html': 'hello' }, { postDeploy: 'echo begun; sleep 60' })
  const queued = await server.upload(project, { 'index.html': 'later' })
  void upload.finished.catch(() => {})
  void queued.finished.catch(() => {})
  await until(async () => (await server.deployments(project.id)).some(({ output }) => output.includes('begun')))
  await server.stop('SIGKILL')
  server = await startServeProcess(t, directory)
  for (const { status, output } of await server.deployments(project.id)) {
    t.equal(status, 'failed')
    t.match(output, /server was restarted/)
  }
  t.equal((await server.deployments(project.id)).length, 2)
  t.notOk(
    existsSync(join(directory, 'server-home/tmp')) && readdirSync(join(directory, 'server-home/tmp')).length > 0,
    'tmp is empty'
  )
})

t.test(
  'a server killed between the end of a deployment and its receipt makes the receipt at the next start',
  async t => {
    const directory = t.testdir({})
    let server = await startServeProcess(t, directory)
    const project = await server.createProject({ name: 'Storefront', deployPath: join(directory, 'www') })
    const deploy = async (content: string): Promise<string> => {
      const { deployId, finished } = await server.upload(project, { 'index.html': content })
      await finished
      return deployId
    }
    const receiptOf = async (id: string): Promise<string> => {
      const headers = { authorization: `Bearer ${server.adminToken}` }
      const response = await fetch(`${server.url}/api/deployments/${id}/receipt`, { headers })
      t.equal(response.status, 200, id)
      return response.text()
    }
    const first = await deploy('one')
    const before = await receiptOf(first)
    await server.stop('SIGTERM')

    // Who reads this file waits for ever, so no receipt can be signed.
    const key = join(server.home, 'keys/server.old.ed25519')
    execFileSync('mkfifo', [key])
    server = await startServeProcess(t, directory)
    const ended = [await deploy('two'), await deploy('three')]
    for (const { status } of await server.deployments(project.id)) t.equal(status, 'success')
    await server.stop('SIGKILL')
    rmSync(key)

    server = await startServeProcess(t, directory)
    const last = await deploy('four')
    t.equal(await receiptOf(first), before, 'a receipt never changes')
    const texts: string[] = []
    for (const id of [first, ...ended, last]) texts.push(await receiptOf(id))
    const { receipts } = readReceipts(texts.join(''), 'all')
    t.strictSame(
      receipts.map(({ receipt }) => [receipt.deployment.id, receipt.chain.number, receipt.deployment.late]),
      [
        [first, 1, false],
        [ended[0], 2, true],
        [ended[1], 3, true],
        [last, 4, false]
      ]
    )
    const trusted = readTrustedKey(readFileSync(join(server.home, 'keys/server.pub'), 'utf8'))
    const verdict = verifyReceipts(receipts, { keys: [trusted], successors: [], revoked: new Set() })
    t.match(verdict, { faults: [], notes: [], chains: [{ first: 1, last: 4 }] })
  }
)
