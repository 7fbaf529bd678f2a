import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { startServeProcess } from '../support/serve-process.js'
import { until } from '../support/until.js'
import { listen } from '../support/on-loopback.js'

/* svc connects only to what its users name, whatever it does: every connection of a server is written down. */

const watch = fileURLToPath(new URL('../support/watch-connections.js', import.meta.url))

t.test('a server connects to nothing but what its users named', async t => {
  const directory = t.testdir({ app: {} })
  const file = join(directory, 'connections')
  const opened = (): string[] =>
    existsSync(file)
      ? [...new Set(readFileSync(file, 'utf8').split('\n').filter(Boolean))].filter(line => !line.startsWith('unix '))
      : []
  const named = createServer((_, reply) => reply.end('up'))
  const asked: string[] = []
  named.on('request', ({ url }) => asked.push(url as string))
  const port = await listen(t, named)

  const env = { CONNECTIONS: file }
  const server = await startServeProcess(t, directory, [], env, { nodeWords: ['--import', watch] })
  const push = async (name: string, policy?: object): Promise<string | undefined> => {
    const project = await server.createProject({ name, deployPath: join(directory, 'app', name) })
    if (policy !== undefined) await server.changeProject(project.id, { policy })
    // What a client claims is shown, and not visited.
    const provenance = JSON.stringify({ repository: 'http://127.0.0.1:9/claimed', url: 'http://127.0.0.1:9/claimed' })
    const { finished } = await server.upload(project, { 'a.txt': 'http://127.0.0.1:9/' }, { provenance })
    return (await finished).at(-1)?.['status']
  }
  t.equal(await push('plain'), 'success')
  for (const path of [
    '/api/health/detail',
    '/api/settings/status',
    '/api/system/resources',
    '/api/pm2/apps',
    '/api/audit/checkpoint',
    '/api/cluster',
    '/api/nodes',
    '/api/storage'
  ])
    await server.api('GET', path)
  t.same(opened(), [], 'nobody has named anything')

  await server.api('POST', '/api/notification-targets', {
    name: 'receiver',
    kind: 'generic',
    url: `http://127.0.0.1:${port}/told`
  })
  t.equal(
    await push('checked', { gate: { after: [{ http: `http://127.0.0.1:${port}/check` }], successes: 1 } }),
    'success'
  )
  await until(() => asked.includes('/told') && asked.includes('/check'))
  t.same(opened(), [`127.0.0.1:${port}`])
  t.equal(await server.stop(), 0)
  t.same(opened(), [`127.0.0.1:${port}`])
})
