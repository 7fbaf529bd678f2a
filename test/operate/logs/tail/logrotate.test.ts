import t, { type Test } from 'tap'
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findNginx, runNginx } from '../../../proxy/nginx.js'
import { findProgram } from '../../../support/programs.js'
import { startServer } from '../../../support/server.js'
import { openStream, type LiveStream } from '../../../support/sse.js'

const nginx = findNginx()
const logrotate = findProgram('logrotate')
const skip = nginx === null ? 'there is no nginx here' : logrotate === null && 'there is no logrotate here'
const rounds = 3

/** An nginx whose access log is followed through svc, and requests that it logs with their numbers. */
async function stage(t: Test) {
  const { client, createProject, sites } = await startServer(t)
  const directory = join(sites, 'nginx')
  mkdirSync(directory)
  const path = join(directory, 'logs/access.log')
  const { url, words } = await runNginx(t, nginx as string, {
    directory,
    http: `log_format number '$arg_n'; access_log ${path} number if=$arg_n;`,
    location: 'location / { return 204; }'
  })
  const { id } = await createProject('shop')
  const { body } = await client.post(`/api/projects/${id}/log-sources`, { items: [{ filePath: path }] })
  const stream = await openStream(client, `/api/log-sources/${body.items[0].id}/stream`)
  t.teardown(() => stream.close())
  await stream.next('snapshot')

  let asked = 0
  return {
    stream,
    asked: () => asked,
    /** Sends requests until it is told to stop. */
    async ask(until: () => boolean): Promise<void> {
      while (!until()) await fetch(`${url}/?n=${++asked}`)
    },
    /** Rotates the log once, as a cron job would. */
    async rotate(how: string, compress = 'nocompress'): Promise<void> {
      const reopen = words.map(word => `'${word}'`).join(' ')
      const config = join(directory, 'logrotate.conf')
      const rule = how === 'create' ? `create\n  postrotate\n    ${reopen} -s reopen\n  endscript` : 'copytruncate'
      writeFileSync(config, `"${path}" {\n  rotate ${rounds}\n  nomail\n  ${compress}\n  ${rule}\n}\n`, { mode: 0o644 })
      await promisify(execFile)(logrotate as string, ['--force', '--state', join(directory, 'state'), config])
    },
    rotated: () => readdirSync(join(directory, 'logs')).filter(name => name.startsWith('access.log.'))
  }
}

const count = ({ events }: LiveStream, kind: string): number => events.filter(({ event }) => event === kind).length
const linesOf = ({ events }: LiveStream): string[] =>
  events.flatMap(({ event, data }) => (event === 'snapshot' || event === 'lines' ? (data.lines as string[]) : []))

async function until(stream: LiveStream, isSo: () => boolean): Promise<void> {
  while (!isSo()) await stream.changed()
}

async function checkAll(t: Test, stream: LiveStream, asked: number): Promise<void> {
  await until(stream, () => linesOf(stream).length >= asked)
  const numbers = linesOf(stream).map(Number)
  t.same(
    numbers.sort((a, b) => a - b),
    Array.from({ length: asked }, (_, index) => index + 1),
    `each of ${asked} lines, once`
  )
  t.equal(count(stream, 'rotated'), rounds)
  t.equal(count(stream, 'snapshot'), rounds + 1, 'one at the start, one for each rotation')
  t.equal(count(stream, 'error'), 0)
}

t.test('follows the access log of nginx across logrotate with create, under constant requests', { skip }, async t => {
  const { stream, ask, asked, rotate, rotated } = await stage(t)
  let isOver = false
  const asking = ask(() => isOver)
  for (let round = 1; round <= rounds; round++) {
    const before = asked()
    await until(stream, () => linesOf(stream).length > before)
    await rotate('create')
    await until(stream, () => count(stream, 'rotated') === round)
  }
  const before = asked()
  await until(stream, () => linesOf(stream).length > before)
  isOver = true
  await asking
  t.equal(rotated().length, rounds)
  await checkAll(t, stream, asked())
})

for (const compress of ['nocompress', 'compress'])
  t.test(
    `follows copytruncate and ${compress} without requests: logrotate itself loses what is written meanwhile`,
    { skip },
    async t => {
      const { stream, ask, asked, rotate, rotated } = await stage(t)
      for (let round = 1; round <= rounds; round++) {
        const turned = asked() - (round === 1 ? 0 : 5)
        const goal = asked() + 40
        await ask(() => asked() >= goal)
        // A part of this file has been read; the rest is in the copy.
        await until(stream, () => linesOf(stream).length > turned)
        await rotate('copytruncate', compress)
        const next = asked() + 5
        await ask(() => asked() >= next)
        await until(stream, () => count(stream, 'rotated') === round)
      }
      t.equal(rotated().length, rounds)
      t.equal(
        rotated().every(name => name.endsWith('.gz')),
        compress === 'compress'
      )
      await checkAll(t, stream, asked())
    }
  )
