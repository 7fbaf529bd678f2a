import t from 'tap'
import type { Client } from '../../../lib/cli/client/client.js'
import { localClient, runningOwner } from '../../../lib/cli/client/local.js'
import { startServer } from '../../support/server.js'

const projectsOf = async (client: Client): Promise<string[]> =>
  (await client.call('GET /api/projects')).map(({ name }) => name)

t.test('a running server is asked through its socket without a token', async t => {
  const { home, createProject } = await startServer(t)
  await createProject('shop')
  const path = await runningOwner(home)
  t.same(await projectsOf(localClient(path as string, {})), ['shop'])
})
