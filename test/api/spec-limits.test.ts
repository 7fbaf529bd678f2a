import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { setClock } from '../support/clock.js'
import { startServer } from '../support/server.js'
import type { Stage } from '../support/server.js'
import type { SetClock } from '../support/clock.js'

/** Section 8 of the specification: each limit at its value and beyond it. Rooms add their rows. */
interface Row {
  limit: string
  /** What is asked in turn, and the status each answer must have. */
  asks(stage: Stage, clock: SetClock): AsyncGenerator<[what: string, actual: unknown, expected: unknown]>
}

const mebibyte = 1024 * 1024

const rows: Row[] = [
  {
    limit: 'file preview: 1 MB',
    async *asks({ client, createProject, sites }) {
      const { id } = await createProject('shop')
      mkdirSync(join(sites, 'shop'), { recursive: true })
      for (const [name, bytes] of [['at', mebibyte], ['over', mebibyte + 1]] as const) {
        writeFileSync(join(sites, 'shop', `${name}.txt`), 'x'.repeat(bytes))
      }
      const typeOf = async (name: string) => (await client.get(`/api/projects/${id}/file?path=${name}.txt`)).body.type
      yield ['at the limit', await typeOf('at'), 'text']
      yield ['over it', await typeOf('over'), 'binary']
    }
  },
  {
    limit: 'new admin token: 8 characters',
    async *asks({ client, as, server }) {
      const change = (oldToken: string, newToken: string) => as(oldToken).post('/api/settings/token', { oldToken, newToken })
      const token = server.adminToken.current()
      yield ['7', (await change(token, '1234567')).status, 400]
      yield ['8', (await change(token, '12345678')).status, 200]
      yield ['the old one is over', (await client.get('/api/projects')).status, 401]
    }
  },
  {
    limit: 'login failures: 8 in 10 minutes, 5 minutes of lock',
    async *asks({ as, server }, clock) {
      const login = async (token: string) => (await as(null).post('/api/auth/login', { token })).status
      const right = server.adminToken.current()
      for (let i = 1; i <= 7; i++) yield [`failure ${i}`, await login('wrong'), 401]
      clock.advance(10 * 60_000)
      for (let i = 1; i <= 8; i++) yield [`failure ${i}, ten minutes later`, await login('wrong'), 401]
      yield ['locked', await login(right), 429]
      clock.advance(5 * 60_000 - 1000)
      yield ['still', await login(right), 429]
      clock.advance(1000)
      yield ['no more', await login(right), 200]
    }
  },
  {
    limit: 'upload size: max_upload_size, MB',
    async *asks({ client, as, createProject }) {
      const project = await createProject('shop')
      await client.put('/api/settings', { max_upload_size: '1' })
      const upload = async (bytes: number) => {
        const file = { filename: 'a.zip', bytes: Buffer.alloc(bytes) }
        return (await as(project.token).upload([['projectId', project.id], ['file', file]])).status
      }
      yield ['over it', await upload(mebibyte + 64 * 1024), 413]
    }
  }
]

for (const { limit, asks } of rows) {
  t.test(`§8: ${limit}`, async t => {
    const clock = setClock(Date.now())
    for await (const [what, actual, expected] of asks(await startServer(t, { clock }), clock)) t.equal(actual, expected, what)
  })
}
