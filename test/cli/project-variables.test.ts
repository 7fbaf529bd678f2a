import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openVariables } from '../../lib/cli/project-variables.js'
import type { Context } from '../../lib/cli/command.js'
import { adminToken, startServer } from '../support/server.js'

t.test('uses the named project, otherwise the project of svc.config.json', async t => {
  const { url, createProject } = await startServer(t)
  const [named, configured] = [await createProject('named'), await createProject('configured')]
  const cwd = join(t.testdirName, 'site')
  mkdirSync(cwd, { recursive: true })
  const env = { HOME: cwd, SVC_HOME: join(cwd, '.svc'), SVC_TOKEN: adminToken }
  const stream = { isTTY: false }
  const context = {
    host: { env, cwd: () => cwd, stdin: stream, stdout: stream, stderr: stream },
    env,
    cwd,
    output: { warn() {}, note() {} },
    command: { options: {}, operands: {} }
  } as unknown as Context
  const asked = { project: undefined, env: undefined, server: url, token: undefined }
  await t.rejects(openVariables(context, asked), { name: 'Refusal' }, 'there is none')
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: configured.id, serverUrl: url }))
  const own = await openVariables(context, asked)
  t.equal(own.projectId, configured.id)
  const other = await openVariables(context, { ...asked, project: named.id })
  t.equal(other.projectId, named.id)
  t.match(await other.api.project(named.id), { name: 'named' }, 'the API is open')
})
