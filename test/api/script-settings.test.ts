/* How a project's scripts run: time limit, umask, shell and working directory, on a real server with real scripts. */
import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { eventsOf, formOf } from '../support/client.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'

async function push(
  stage: Stage,
  project: Project,
  files: Record<string, string> = { 'index.html': 'x', 'apps/web/x': 'y' }
) {
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
  ])
  const reply = await stage
    .as(project.token)
    .send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  const events = eventsOf(reply) as Array<{ event: string; data?: string; status?: string }>
  return { status: events.at(-1)?.status, text: events.flatMap(({ data }) => data ?? []).join('\n') }
}

t.test('accepts valid values, and refuses others with the name of the field', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site')
  t.match(project, { scriptTimeoutSeconds: null, scriptShell: null, scriptDirectory: null, umask: null })
  const put = (fields: object) => stage.client.put(`/api/projects/${project.id}`, fields)
  const fields = { scriptTimeoutSeconds: 60, scriptShell: '/bin/sh', scriptDirectory: 'apps/web', umask: '027' }
  t.match((await put({ ...fields, scriptDirectory: './apps//web/' })).body, { project: fields })
  const { body: kept } = await stage.client.get(`/api/projects/${project.id}`)
  t.match(kept, fields)
  const cases: Array<[object, string]> = [
    [{ scriptTimeoutSeconds: 0 }, 'scriptTimeoutSeconds'],
    [{ scriptTimeoutSeconds: 86_401 }, 'scriptTimeoutSeconds'],
    [{ scriptTimeoutSeconds: '60' }, 'scriptTimeoutSeconds'],
    [{ scriptShell: 'zsh' }, 'scriptShell'],
    [{ scriptShell: 7 }, 'scriptShell'],
    [{ scriptDirectory: '../x' }, 'scriptDirectory'],
    [{ scriptDirectory: '/srv' }, 'scriptDirectory'],
    [{ umask: '9' }, 'umask']
  ]
  for (const [wrong, field] of cases) t.match(await put(wrong), { status: 400, body: { field } }, JSON.stringify(wrong))
  t.strictSame((await stage.client.get(`/api/projects/${project.id}`)).body, kept)
  const emptied = { scriptTimeoutSeconds: null, scriptShell: '', scriptDirectory: '', umask: '' }
  t.match((await put(emptied)).body, {
    project: { scriptTimeoutSeconds: null, scriptShell: null, scriptDirectory: null, umask: null }
  })
})

t.test('the settings decide how scripts run', async t => {
  const stage = await startServer(t, { settings: { script_timeout: '30' } })
  const tool = join(stage.sites, 'shell')
  writeFileSync(tool, '#!/bin/sh\necho "by the tool: $2"\n')
  chmodSync(tool, 0o755)
  let count = 0
  const run = async (fields: Partial<Project>, files?: Record<string, string>) => {
    const project = await stage.createProject(`site-${++count}`, {
      postDeployScript: 'umask; pwd; touch made',
      ...fields
    })
    return { project, ...(await push(stage, project, files)) }
  }

  const limited = await run({ postDeployScript: 'sleep 20', scriptTimeoutSeconds: 1 })
  t.equal(limited.status, 'failed')
  t.match(limited.text, "it ran longer than 1 s (the project's scriptTimeoutSeconds)")

  const placed = await run({ scriptDirectory: 'apps/web', umask: '007' })
  t.match(placed.text, `0007\n${placed.project.deployPath}/apps/web`)
  t.equal(statSync(join(placed.project.deployPath, 'apps/web/made')).mode & 0o777, 0o660)

  const bash = await run({ scriptShell: 'bash', postDeployScript: 'echo "bash ${BASH_VERSION:+yes}"' })
  t.match(bash.text, 'bash yes')
  t.match((await run({ scriptShell: tool, postDeployScript: 'a script' })).text, 'by the tool: a script')
  const missing = await run({ scriptShell: '/no/such/shell' })
  t.equal(missing.status, 'failed')
  t.match(missing.text, 'The post-deploy script did not run: the shell "/no/such/shell" is not an executable file')
  const background = await run({ scriptShell: '/no/such/shell', postDeployAsync: true })
  t.equal(background.status, 'failed')
  t.match(background.text, 'did not run: the shell "/no/such/shell"')

  const first = await run({ scriptDirectory: 'apps/web', preDeployScript: 'echo "before: $PWD"' })
  t.equal(first.status, 'success')
  t.match(
    first.text,
    /running in the target directory: "apps\/web" does not exist before the first deployment\nbefore: .*site-\d+\n/
  )
  t.match((await push(stage, first.project)).text, /before: .*\/apps\/web\n/)
  const nowhere = await run({ scriptDirectory: 'apps/none' })
  t.equal(nowhere.status, 'failed')
  t.match(
    nowhere.text,
    'The post-deploy script did not run: its working directory "apps/none" does not exist in the target'
  )
})

t.test('the umask applies to files below the target, whatever the umask of svc is', async t => {
  const stage = await startServer(t)
  const modeOf = (project: Project, path: string): string =>
    (statSync(join(project.deployPath, path)).mode & 0o777).toString(8)
  for (const [umask, directory, file] of [
    ['077', '700', '600'],
    ['027', '750', '640'],
    ['000', '777', '664']
  ] as const) {
    const project = await stage.createProject(`umask-${umask}`, { umask })
    // Enough files to use a second thread. The modes in the archive are 664.
    const many = Object.fromEntries(
      Array.from({ length: umask === '077' ? 1200 : 2 }, (_, index) => [`many/${index}`, 'x'])
    )
    t.equal((await push(stage, project, { 'index.html': 'x', 'a/b/c': 'y', ...many })).status, 'success')
    const modes = ['', 'a', 'a/b', 'a/b/c', 'index.html', ...Object.keys(many)].map(path => modeOf(project, path))
    t.strictSame(
      modes,
      modes.map((_, index) => (index < 3 ? directory : file)),
      umask
    )
  }
  const there = join(stage.sites, 'there')
  mkdirSync(there, { mode: 0o755 })
  const project = await stage.createProject('there', { deployPath: there, umask: '077' })
  await push(stage, project)
  t.equal(modeOf(project, ''), '755', 'an existing target keeps its mode')
})

t.test('secrets are masked in error messages', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site', { postDeployScript: 'true', scriptDirectory: 'apps-secret-word' })
  const variables = [{ name: 'WORD', value: 'secret-word', secret: true }]
  await stage.client.patch(`/api/projects/${project.id}/variables`, { variables })
  const { text } = await push(stage, project)
  t.match((await stage.client.get(`/api/logs?projectId=${project.id}`)).body, [
    { status: 'failed', errorMessage: /working directory "apps-\*\*\*" does not exist in the target/ }
  ])
  t.notOk(text.includes('secret-word'))
})
