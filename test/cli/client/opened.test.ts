import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Client } from '../../../lib/cli/client/client.js'
import { runningOwner } from '../../../lib/cli/client/local.js'
import { withLocalApi } from '../../../lib/cli/client/opened.js'
import type { Context } from '../../../lib/cli/command.js'
import { locateHome } from '../../../lib/base/config/home.js'
import { startServer } from '../../support/server.js'

const context = { env: {}, output: { warn: () => {} } } as unknown as Context
const projectsOf = async (client: Client): Promise<string[]> =>
  (await client.call('GET /api/projects')).map(({ name }) => name)

t.test('a running server is asked', async t => {
  const { home, createProject } = await startServer(t)
  await createProject('shop')
  await withLocalApi(context, home, async ({ client, isServerRunning }) => {
    t.ok(isServerRunning)
    t.same(await projectsOf(client), ['shop'])
  })
})

t.test(
  'without a server this process answers, and lets go of the directory at the end, also after an error',
  async t => {
    const directory = join(t.testdir({}), 'home')
    const home = locateHome({ SVC_HOME: directory }, directory)
    t.equal(await runningOwner(home), null, 'there is no such directory')
    mkdirSync(directory, { mode: 0o700 })
    t.equal(await runningOwner(home), null)
    const failing = withLocalApi(context, home, async ({ client, isServerRunning }) => {
      t.notOk(isServerRunning)
      t.same(await projectsOf(client), [])
      t.type(await runningOwner(home), 'string', 'the directory has an owner meanwhile')
      throw new Error('given up')
    })
    await t.rejects(failing, { message: 'given up' })
    t.equal(await runningOwner(home), null)
  }
)
