import { appendFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startCutProxy } from '../../support/cut-proxy.js'
import { signIn, withCookie } from '../../support/session.js'
import { startServer } from '../../support/server.js'
import { createClient, createConnection } from '../../../www/server/client.js'
import type { HeldLimits } from '../../../www/state/held-lines.js'
import { LogFile } from '../../../www/state/log-file.js'
import { createSession } from '../../../www/state/session.js'
import { until } from '../../support/until.js'

/** A log file on a real server, seen through a network that can be cut. */
async function openFile(
  t: Test,
  before: string | Buffer,
  { limits = {}, name = 'app.log', at = null as number | null } = {} as {
    limits?: HeldLimits
    name?: string
    at?: number | null
  }
) {
  const stage = await startServer(t)
  const proxy = await startCutProxy(t, stage.url)
  const path = join(stage.sites, name)
  writeFileSync(path, before)
  const project = await stage.createProject('shop')
  const { body } = await stage.client.post(`/api/projects/${project.id}/log-sources`, { items: [{ filePath: path }] })
  const storage = new Map<string, string>()
  const cell = {
    getItem: (key: string) => storage.get(key) ?? null,
    setItem: (key: string, value: string) => void storage.set(key, value),
    removeItem: (key: string) => void storage.delete(key)
  }
  const session = createSession({ base: `${proxy.url}/`, tab: cell, browser: cell })
  const { id, csrf, cookie } = await signIn(stage.as(null))
  session.begin({ id, csrf })
  const connection = createConnection()
  const client = createClient({ base: `${proxy.url}/`, session, connection, fetch: withCookie(cookie) })
  const life = new AbortController()
  const file = new LogFile({
    id: body.items[0].id,
    client,
    onConnection: state => connection.set(state),
    signal: life.signal,
    limits
  })
  const over = file.open({ at })
  t.teardown(async () => {
    life.abort()
    await over
  })
  const texts = (): string[] => file.lines.filter(({ isNote }) => isNote !== true).map(({ text }) => text)
  const comesTo = (isSo: () => boolean, what: string): Promise<true> =>
    until(isSo, { what: () => `${what}: ${file.state} ${file.problem} ${JSON.stringify(texts().slice(-5))}` })
  const last = (text: string): Promise<true> => comesTo(() => texts().at(-1) === text, text)
  return { path, file, proxy, texts, until: comesTo, last, append: (text: string) => appendFileSync(path, text) }
}

const numbers = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `line ${from + index}`)
const textOf = (lines: string[]): string => lines.map(line => `${line}\n`).join('')

t.test('opens at the end, follows, and completes an incomplete line', async t => {
  const log = await openFile(t, 'one\ntwo\nthr')
  await log.last('thr')
  t.equal(log.file.head, 'start')
  log.append('ee\nfour\n')
  await log.last('four')
  t.same(log.texts(), ['one', 'two', 'three', 'four'])
  log.append('fi')
  log.append('ve\r\nsix ä\r\n')
  await log.last('six ä')
  log.append('seven\r\n')
  await log.last('seven')
  t.same(log.texts(), ['one', 'two', 'three', 'four', 'five', 'six ä', 'seven'])
})

t.test('loses and doubles no line when the connection breaks repeatedly', async t => {
  const log = await openFile(t, textOf(numbers(0, 50)))
  await log.last('line 49')
  let count = 50
  for (let round = 0; round < 4; round++) {
    const more = numbers(count, count + 2500)
    for (const line of more) log.append(`${line}\n`)
    count += 2500
    await log.until(() => log.texts().length > count - 2500, 'some of it')
    log.proxy.cut()
    log.append(textOf(numbers(count, count + 500)))
    count += 500
    log.append('unfini')
    await sleep(50)
    log.proxy.mend()
    await log.last(`line ${count - 1}`)
    log.append('shed\n')
    log.append(`line ${count++}\n`)
    await log.last(`line ${count - 1}`)
  }
  t.same(
    log.texts().filter(text => text !== 'unfinished'),
    numbers(0, count)
  )
  t.equal(log.texts().filter(text => text === 'unfinished').length, 4)
  t.equal(log.file.arrivedLines, count + 4 - 50, 'each of them arrived once')
})

t.test('after a rotation the old lines stay, followed by a note, with no line lost', async t => {
  const log = await openFile(t, textOf(numbers(0, 20)))
  await log.last('line 19')
  await log.until(() => log.file.isFollowed, 'a stream')
  log.append(textOf(numbers(20, 25)))
  renameSync(log.path, `${log.path}.1`)
  writeFileSync(log.path, textOf(numbers(25, 30)))
  await log.last('line 29')
  log.append(textOf(numbers(30, 35)))
  await log.last('line 34')
  t.same(log.texts(), numbers(0, 35))
  t.equal(log.file.lines.filter(({ isNote }) => isNote === true).length, 1)
  truncateSync(log.path, 0)
  log.append(textOf(numbers(35, 40)))
  await log.last('line 39')
  t.same(log.texts(), numbers(0, 40))
  const notes = log.file.lines.filter(({ isNote }) => isNote === true).map(({ text }) => text)
  t.match(notes, [/^The file was rotated at/, 'Lines may have been lost here', /^The file was rotated at/])
})

t.test('after a rotation during a lost connection, shows the new file from its start', async t => {
  const log = await openFile(t, textOf(numbers(0, 20)))
  await log.last('line 19')
  log.proxy.cut()
  renameSync(log.path, `${log.path}.1`)
  writeFileSync(log.path, textOf(numbers(20, 500)))
  log.proxy.mend()
  await log.last('line 499')
  t.same(log.texts(), numbers(0, 500))
})

t.test('pages to the start and back to the end within its limits, each line once', async t => {
  const all = numbers(0, 120_000)
  const log = await openFile(t, textOf(all), { limits: { maxLines: 60_000 } })
  await log.last('line 119999')
  t.equal(log.file.head, 'more')
  const seen = new Map<number, string>()
  const look = (): void => {
    for (const [index, { text }] of log.file.lines.entries()) seen.set(log.file.firstNumber + index, text)
    if (log.texts().length > 60_000) throw new Error(`${log.texts().length} lines are held`)
  }
  while (log.file.head === 'more') {
    look()
    const { firstNumber } = log.file
    log.file.reach('start')
    await log.until(() => log.file.firstNumber < firstNumber, 'earlier lines')
  }
  look()
  t.equal(log.file.lines[0]?.text, 'line 0')
  t.notOk(log.file.isAtEnd, 'the end was given up')
  log.append('line 120000\n')
  await log.until(() => log.file.arrivedLines === 1, 'a line that is only counted')
  while (!log.file.isAtEnd) {
    const end = log.file.firstNumber + log.file.lines.length
    log.file.reach('end')
    await log.until(() => log.file.firstNumber + log.file.lines.length > end || log.file.isAtEnd, 'later lines')
    look()
  }
  t.same(
    [...seen].sort(([a], [b]) => a - b).map(([, text]) => text),
    [...all, 'line 120000']
  )
  log.append('line 120001\n')
  await log.last('line 120001')
})

t.test('jumps to an offset, to a time, to the end', async t => {
  const lines = Array.from(
    { length: 60_000 },
    (_, index) => `${new Date(1e12 + index * 1000).toISOString()} request ${index}`
  )
  const text = textOf(lines)
  const log = await openFile(t, text, { at: text.indexOf(lines[30_000] as string) })
  await log.until(() => log.file.state === 'open', 'open')
  t.notOk(log.file.isAtEnd)
  t.equal(
    log.file.offsetOf(log.file.firstNumber + log.texts().indexOf(lines[30_000] as string)),
    text.indexOf(lines[30_000] as string)
  )
  const found = await log.file.seek(1e12 + 12_345_500)
  t.equal(log.file.lines[(found as number) - log.file.firstNumber]?.text, lines[12_346])
  t.equal(await log.file.seek(1e13), null)
  log.file.toEnd()
  await log.until(() => log.file.isAtEnd, 'the end')
  t.equal(log.texts().at(-1), lines.at(-1))
  log.append('after\n')
  await log.last('after')
})

t.test('reports a missing file, and continues when it exists again', async t => {
  const log = await openFile(t, 'one\n')
  await log.last('one')
  renameSync(log.path, `${log.path}.away`)
  await log.until(() => log.file.problem !== null, 'a word about it')
  t.match(log.file.problem, /no such file or directory|no longer exists/, 'whether it was read or followed')
  renameSync(`${log.path}.away`, log.path)
  log.append('two\n')
  await log.last('two')
  t.same(log.texts(), ['one', 'two'])
  t.equal(log.file.problem, null, 'and nothing is the matter any more')
  // Once more, when there is a stream that has shown the file.
  await log.until(() => log.file.isFollowed, 'a stream')
  renameSync(log.path, `${log.path}.away`)
  await log.until(() => log.file.problem !== null, 'a word about it, again')
  renameSync(`${log.path}.away`, log.path)
  log.append('three\n')
  await log.last('three')
  t.equal(log.file.problem, null)
})

t.test('reports a binary file', async t => {
  const log = await openFile(t, Buffer.from(Array.from({ length: 5000 }, (_, index) => index % 7)))
  await log.until(() => log.file.state === 'binary', 'binary')
  t.same(log.texts(), [])
})

t.test('shows the contents of a compressed file', async t => {
  const log = await openFile(t, gzipSync(textOf(numbers(0, 1000))), { name: 'old.log.gz' })
  await log.last('line 999')
  t.same(log.texts(), numbers(0, 1000))
})
