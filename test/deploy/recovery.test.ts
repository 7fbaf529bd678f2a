import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createFiles } from '../../lib/deploy/files.js'
import { listDeployments, updateDeployment } from '../../lib/store/tables/deployments.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { deployStage, type DeployStage } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

/** Writes a record as a killed server leaves it. */
async function interrupt(stage: DeployStage, row: DeploymentRow, status: 'queued' | 'running'): Promise<void> {
  const [stored, target] = row.steps
  const steps = status === 'queued' ? [stored] : [stored, { ...target, status: 'running', endedAt: null }]
  const patch = { status, endTime: null, duration: null, steps } as Partial<DeploymentRow>
  await stage.store.write(tx => updateDeployment(tx, row.id, patch))
}

t.test('queued and running deployments fail at a start, and their output says so', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const done = await before.deploy(project, { 'a.txt': '1' })
  const queued = await before.deploy(project, { 'a.txt': '2' })
  const running = await before.deploy(project, { 'a.txt': '3' })
  await interrupt(before, queued, 'queued')
  await interrupt(before, running, 'running')
  await appendFile(createFiles(before.home).output(running.id), '2030-01-01T00:00:00.000Z torn by the ki')

  const stage = await before.restart()
  t.strictSame(stage.row(done.id), done)
  const cases = [
    { id: queued.id, sentence: deploySays.restartedWhileQueued, steps: ['success'] },
    {
      id: running.id,
      sentence: deploySays.restartedWhileRunning,
      steps: ['success', 'failed']
    }
  ]
  for (const { id, sentence, steps } of cases) {
    const row = stage.row(id)
    t.match(row, { status: 'failed', errorMessage: sentence, endTime: /^20/, duration: /s$/, hasArtifact: true })
    t.strictSame(
      row.steps.map(step => step.status),
      steps
    )
    t.ok(row.steps.every(step => step.endedAt !== null))
    t.match(await stage.output(id), matching(deploySays.succeeded, '\n✗ ', sentence, /\n$/))
  }
  t.strictSame(
    stage.notices.map(({ trigger, event, deployment }) => [trigger, event, deployment.id]),
    [
      ['cli', 'deploy_failure', queued.id],
      ['cli', 'deploy_failure', running.id]
    ]
  )
  t.equal((await stage.deploy(project, { 'a.txt': '4' })).status, 'success', 'the project can be deployed again')
})

t.test('after a kill during a change, the target is unchanged or complete', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  await before.store.close()
  const program = fileURLToPath(new URL('../support/deploy-child.js', import.meta.url))
  const child = spawn(process.execPath, [program, before.directory, project.id], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ids: string[] = []
  child.stdout?.on('data', (text: Buffer) => void ids.push(...text.toString().trim().split('\n')))
  const isMoving = async (): Promise<boolean> => {
    const id = ids.at(-1)
    if (id === undefined || ids.length < 2) return false
    const journal = await readFile(join(before.home.deployments, `${id}.undo`), 'utf8').catch(() => '')
    return /^ready /m.test(journal)
  }
  await until(isMoving)
  child.kill('SIGKILL')
  await once(child, 'exit')

  const stage = await deployStage(t, before.directory)
  const rows = listDeployments(stage.store, { projectId: project.id, limit: 10 })
  t.strictSame(
    rows.map(row => row.status).filter(status => status !== 'success' && status !== 'failed'),
    []
  )
  const texts = new Set<string>()
  for (let index = 0; index < 800; index++)
    texts.add(await readFile(join(project.deployPath, `d${index % 7}/f${index}`), 'utf8'))
  t.equal(texts.size, 1, `all files are of one deployment: ${[...texts].join(', ')}`)
  if (rows[0]?.status === 'failed') t.match(await stage.output(rows[0].id), `✗ ${deploySays.restartedWhileRunning}`)
  t.notOk(
    (await readdir(project.deployPath)).some(name => name.startsWith('.svc')),
    'no staging directory is left'
  )
  t.strictSame(await readdir(stage.home.tmp), [])
})
