import t from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Project } from '../../../lib/model/project.js'
import { startServe, type Serving } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

async function deploy(
  server: Serving,
  project: Project,
  text: string,
  fields: Record<string, string> = {}
): Promise<string> {
  const { deployId, finished } = await server.upload(
    project,
    { 'a.txt': text },
    { message: `Version ${text}`, ...fields }
  )
  await finished
  return deployId
}

t.test('rollback', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const options = { cwd, env }
  let number = 0

  /** A project of its own for each case, and what its file says now. */
  async function fresh() {
    const deployPath = join(cwd, `www${++number}`)
    const project = await server.createProject({ name: `shop ${number}`, deployPath })
    return { project, live: () => readFileSync(join(deployPath, 'a.txt'), 'utf8') }
  }

  await t.test('goes back to the previous deployment if the last one succeeded', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    const { code, stdout, stderr } = await svc(['rollback', project.id, '--yes', '-m', 'Back'], options)
    t.equal(code, 0, stderr)
    t.match(stderr, `Chosen: ${first}, the success before the latest deployment (${second} succeeded).\n`)
    t.match(stderr, `Rolling back ${project.name} to ${first} (`)
    t.match(stdout, new RegExp(`✔ success: rolled back to ${first} in .* \\(dep_\\w+\\)\\n$`))
    t.equal(live(), 'one')
    t.match(await server.deployments(project.id), [
      { triggerSource: 'rollback', rollbackOf: first, message: 'Back' },
      {},
      {}
    ])
  })

  await t.test('a repair after the last deployment changes nothing in the choice', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    writeFileSync(join(project.deployPath, 'a.txt'), 'edited')
    t.match(await svc(['repair', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'two')
    for (const words of [[], ['--exact']]) {
      const asked = await svc(['rollback', project.id, '--dry-run', ...words], options)
      t.match(asked.stdout + asked.stderr, first)
      t.match(asked.stderr, `Chosen: ${first}, the success before the latest deployment (${second} succeeded).\n`)
    }
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'one')
  })

  await t.test('goes back to the latest success if the last deployment failed', async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    const third = await deploy(server, project, 'three', { postDeploy: 'exit 1' })
    t.match(await svc(['rollback', project.id, '--yes'], options), {
      code: 0,
      stdout: new RegExp(`rolled back to ${second}`),
      stderr: new RegExp(
        `^Chosen: ${second}, the latest success \\(the latest deployment, ${third}, failed\\)\\.$`,
        'm'
      )
    })
    t.equal(live(), 'two')
  })

  await t.test('each rollback steps back further, and fails at the end', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    await deploy(server, project, 'three')
    const back = (...words: string[]) => svc(['rollback', project.id, '--yes', ...words], options)
    t.match(await back(), { code: 0, stderr: `Chosen: ${second}, the success before the latest deployment (` })
    t.match(await back('--exact', '--dry-run'), {
      stderr: `Chosen: ${first}, the success before ${second}, which dep_`
    })
    t.match(await back(), { code: 0, stderr: `Chosen: ${first}, the success before ${second}, which dep_` })
    t.equal(live(), 'one')
    t.match(await back(), {
      code: 1,
      stderr: `cannot be rolled back: no archive of a success before ${first} is kept. Use --to to deploy another one again`
    })
    await deploy(server, project, 'four')
    t.match(await back(), { code: 0 })
    t.equal(live(), 'one', 'what was live before it')
  })

  await t.test('after an undo, goes back to what was live before that', async t => {
    const { project, live } = await fresh()
    for (const text of ['one', 'two', 'three']) await deploy(server, project, text)
    t.match(await svc(['undo', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'two')
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'one')
  })

  await t.test('reports that there is no deployment', async t => {
    const { project } = await fresh()
    t.match(await svc(['rollback', project.id, '--yes'], options), {
      code: 1,
      stderr: /cannot be rolled back: nothing has been deployed yet/
    })
  })

  await t.test('--to selects a deployment of the named project', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    await deploy(server, project, 'three')
    const { code, stdout, stderr } = await svc(['rollback', '--to', first, '--yes', '--json'], options)
    t.equal(code, 0, stderr)
    t.notMatch(stderr, 'Chosen')
    t.match(JSON.parse(stdout), { status: 'success', deployId: /^dep_/, duration: /s$/ })
    t.equal(live(), 'one')
    const other = await fresh()
    t.match(await svc(['rollback', other.project.id, '--to', first, '--yes'], options), {
      code: 1,
      stderr: /it belongs to the project/
    })
    t.match(await svc(['rollback', '--to', 'dep_unknown', '--yes'], options), {
      code: 1,
      stderr: /Deployment not found/
    })
  })

  await t.test('a failed rollback has exit code 1', async t => {
    const { project } = await fresh()
    for (const text of ['one', 'two']) await deploy(server, project, text)
    await server.changeProject(project.id, { postDeployScript: 'exit 7' })
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 1, stdout: /✘ failed after [\d.]+s: / })
  })

  await t.test('rollback needs --yes without a terminal', async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    t.match(await svc(['rollback', project.id], options), { code: 1, stderr: /needs a confirmation.* use --yes/ })
    t.equal(live(), 'two')
    t.equal((await server.deployments(project.id)).length, 2)
  })

  await t.test('asks on a terminal', { skip: noTerminal }, async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    const question = { see: 'Version one") [y/N]: ' }
    const no = await svcOnTerminal(['rollback', project.id], [{ ...question, type: '\r' }], options)
    t.equal(no.code, 1)
    t.equal(live(), 'two')
    const yes = await svcOnTerminal(['rollback', project.id], [{ ...question, type: 'y\r' }], options)
    t.equal(yes.code, 0, yes.text)
    t.equal(live(), 'one')
  })
})
