import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { locateHome } from '../../lib/base/config/home.js'
import { serveLocally } from '../../lib/server/local.js'
import { request } from 'node:http'

const healthAt = (socketPath: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    request({ socketPath, path: '/api/overview' }, reply => {
      reply.resume().once('end', () => resolve(reply.statusCode))
    })
      .once('error', reject)
      .end()
  })

t.test('owns the directory and answers at its socket, without a token, until it stops', async t => {
  const directory = t.testdir({})
  const home = locateHome({ SVC_HOME: join(directory, 'home') }, directory)
  const warnings: string[] = []
  const options = { home, environment: {}, warn: (line: string) => void warnings.push(line) }
  const local = await serveLocally(options)
  t.equal(await healthAt(local.path), 200)
  await t.rejects(serveLocally(options), { code: 'in_use' }, 'no other process can own it')
  await local.stop()
  t.notOk(existsSync(local.path))
  const again = await serveLocally(options)
  await again.stop()
  t.same(warnings, [])
})
