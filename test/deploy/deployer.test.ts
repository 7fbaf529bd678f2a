import t from 'tap'
import { mkdir, readFile, readdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { createFiles } from '../../lib/deploy/files.js'
import { linesOf, type StoredLine } from '../../lib/deploy/output/stored-output.js'
import { listDeployments } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'

t.test('records eighty deployments to ten projects in order, with separate outputs', async t => {
  const stage = await deployStage(t)
  stage.values.keep_archives = 3
  const names = Array.from({ length: 10 }, (_, index) => `p${index}`)
  const projects = await Promise.all(names.map(name => stage.addProject({ name })))
  const preDeploy = 'echo "$SVC_PROJECT_NAME $NUMBER"; exit "$CODE"'
  // Every second one of a project fails, so that failures could mix in, too. Two hundred over HTTP are in
  // faults/parallel-uploads.
  const wanted = (number: number): 'success' | 'failed' => (Math.floor(number / 10) % 2 === 0 ? 'success' : 'failed')
  const runs = await Promise.all(
    Array.from({ length: 80 }, async (_, number) => {
      const project = projects[number % 10] as (typeof projects)[number]
      const files = { [`only-${project.name}.txt`]: '', 'number.txt': String(number) }
      const env = { NUMBER: String(number), CODE: wanted(number) === 'success' ? '0' : '1' }
      const run = await stage.push(project, files, { preDeploy, env, message: String(number) })
      return { project, number, row: await run.finished }
    })
  )
  t.equal(new Set(runs.map(({ row }) => row.id)).size, 80)
  const others = runs.filter(({ row, number }) => row.status !== wanted(number))
  t.strictSame(
    others.map(({ row }) => [row.status, row.errorMessage, row.steps]),
    []
  )
  const outputs = await Promise.all(runs.map(({ row }) => stage.output(row.id)))
  const isOwn = runs.map(({ project, number }, index) => outputs[index]?.includes(`\n${project.name} ${number}\n`))
  t.notOk(isOwn.includes(false), 'each output contains only its own lines')
  for (const project of projects) {
    const rows = listDeployments(stage.store, { projectId: project.id, limit: 500 }).reverse()
    t.equal(rows.length, 8)
    const turns = rows.flatMap(row => [row.steps[1]?.startedAt, row.endTime])
    t.strictSame(turns, [...turns].sort(), 'they ran one by one, in the order of their records')
    t.strictSame((await readdir(project.deployPath)).sort(), ['number.txt', `only-${project.name}.txt`])
    const newest = rows.filter(row => row.status === 'success').at(-1)
    t.equal(await readFile(join(project.deployPath, 'number.txt'), 'utf8'), newest?.message, 'the newest is live')
    t.equal(rows.filter(row => row.hasArtifact).length, 6, 'three successful archives and three failed ones are kept')
    t.notOk(stage.deployer.hasRunning(project.id))
  }
  t.strictSame(await readdir(stage.home.tmp), [])
  t.strictSame(stage.faults, [])
})

t.test('a follower gets each line while the deployment runs', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: 'for n in 1 2; do echo "line $n"; done; until [ -e go ]; do sleep 0.02; done; echo "line 3"'
  })
  const run = await stage.push(project, { 'a.txt': '1' })
  const seen: StoredLine[] = []
  let wasRunning = false
  for await (const block of stage.deployer.follow(run.deployId, { signal: never })) {
    seen.push(...linesOf(block))
    if (seen.at(-1)?.line.text !== 'line 2') continue
    wasRunning = stage.row(run.deployId).status === 'running'
    await writeFile(join(project.deployPath, 'go'), '')
  }
  t.ok(wasRunning, 'a line arrived while it was running')
  t.equal(stage.row(run.deployId).status, 'success', 'following ends with the deployment')
  t.equal(`${seen.map(({ line }) => line.text).join('\n')}\n`, await stage.output(run.deployId))
  const middle = seen[4] as StoredLine
  const rest: StoredLine[] = []
  for await (const block of stage.deployer.follow(run.deployId, { from: middle.nextOffset, signal: never }))
    rest.push(...linesOf(block))
  t.strictSame(rest, seen.slice(5))
})

t.test('a follower that disconnects does not stop the deployment', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'until [ -e go ]; do sleep 0.02; done' })
  const run = await stage.push(project, { 'a.txt': '1' })
  const leaving = new AbortController()
  let hasSeen = false
  const following = (async () => {
    for await (const { bytes } of stage.deployer.follow(run.deployId, { signal: leaving.signal })) {
      hasSeen = true
      if (bytes.includes('never')) return
    }
  })()
  await until(() => hasSeen)
  leaving.abort(new Error('gone'))
  await t.rejects(following, { message: 'gone' })
  await mkdir(project.deployPath, { recursive: true })
  await writeFile(join(project.deployPath, 'go'), '')
  t.equal((await run.finished).status, 'success')
})

t.test('refuses unknown deployments and projects', async t => {
  const { deployer } = await deployStage(t)
  const code = { code: 'not_found' }
  t.throws(() => deployer.follow('dep_none', { signal: never }), code)
  t.throws(() => deployer.outputStream('dep_none'), code)
  await t.rejects(deployer.manifest('dep_none'), code)
  await t.rejects(deployer.changes('dep_none', 'dep_none'), code)
})

t.test('returns the file list of a deployment that extracted files', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'b.txt': '2', 'a/a.txt': '1' })
  t.match(await stage.deployer.manifest(row.id), [{ path: 'a/a.txt', size: 1, before: null }, { path: 'b.txt' }])
  await stage.change(project, { preDeployScript: 'exit 1' })
  const failed = await stage.deploy(project, { 'b.txt': '3' })
  await t.rejects(stage.deployer.manifest(failed.id), { code: 'no_manifest' })
  // A power cut can leave such a list if it was not synced.
  await truncate(createFiles(stage.home).manifest(row.id))
  await t.rejects(stage.deployer.manifest(row.id), { code: 'torn_manifest' })
  await t.rejects(stage.deployer.changes(row.id, row.id), { code: 'torn_manifest' })
})

t.test('a stop lets the running deployment finish, fails queued ones and refuses new ones', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'until [ -e go ]; do sleep 0.02; done' })
  const running = await stage.push(project, { 'a.txt': '1' })
  const queued = await stage.push(project, { 'a.txt': '2' })
  await until(() => stage.row(running.deployId).status === 'running')
  const stopping = stage.deployer.stop({ wait: true })
  await t.rejects(stage.push(project, {}), { code: 'shutting_down' })
  await t.rejects(stage.deployer.rollback(running.deployId, { actor: admin }), { code: 'shutting_down' })
  await mkdir(project.deployPath, { recursive: true })
  await writeFile(join(project.deployPath, 'go'), '')
  await stopping
  t.equal(stage.row(running.deployId).status, 'success')
  t.match(stage.row(queued.deployId), {
    status: 'failed',
    errorMessage: deploySays.stoppedWhileQueued
  })
  t.match(await queued.finished, { status: 'failed' })
})

t.test('a stop without waiting stops the script, even after a stop with waiting', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 20' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await until(() => stage.row(run.deployId).status === 'running')
  const patient = stage.deployer.stop({ wait: true })
  await turn()
  t.equal(stage.row(run.deployId).status, 'running')
  await stage.deployer.stop({ wait: false })
  await patient
  t.match(stage.row(run.deployId), {
    status: 'failed',
    errorMessage: deploySays.stoppedWhileRunning
  })
})

t.test('a stop leaves a background script running and says so in the output', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployAsync: true, postDeployScript: 'sleep 0.6; touch done' })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  await stage.deployer.stop({ wait: false })
  t.match(await stage.output(row.id), deploySays.goesOnInBackground)
  t.equal(stage.row(row.id).status, 'success')
  t.match(
    stage.row(row.id).steps[4],
    { name: 'postDeploy', status: 'success', exitCode: null, endedAt: String },
    'its result is not known'
  )
  await until(async () => (await readdir(project.deployPath)).includes('done'))
})
