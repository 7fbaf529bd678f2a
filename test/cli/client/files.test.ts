import t, { type Test } from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { join } from 'node:path'
import { createClient } from '../../../lib/cli/client/client.js'
import { downloadZip, explain, formBody, type ZipDownload } from '../../../lib/cli/client/files.js'
import { urlOf } from '../../support/on-loopback.js'

t.test('formBody returns a form of known length with its fields before the file', async t => {
  const path = join(t.testdir({ 'a.zip': 'PK-the-bytes' }), 'a.zip')
  const seen: number[] = []
  const body = formBody(
    { fields: { projectId: 'proj_1', 'a"b\r\n': 'two\nlines ü' } },
    { field: 'file', filename: 'archive.zip', path, bytes: 12 },
    bytes => seen.push(bytes)
  )
  const chunks: Uint8Array[] = []
  for await (const chunk of body.chunks()) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const boundary = /boundary=(.*)$/.exec(body.contentType)?.[1]
  t.equal(bytes.length, body.bytes)
  t.same(seen, [12])
  t.equal(
    bytes.toString(),
    [
      `--${boundary}`,
      'Content-Disposition: form-data; name="projectId"',
      '',
      'proj_1',
      `--${boundary}`,
      'Content-Disposition: form-data; name="a%22b%0D%0A"',
      '',
      'two\nlines ü',
      `--${boundary}`,
      'Content-Disposition: form-data; name="file"; filename="archive.zip"',
      'Content-Type: application/zip',
      '',
      'PK-the-bytes',
      `--${boundary}--`,
      ''
    ].join('\r\n')
  )
})

interface Stage {
  download: ZipDownload
  file: string
  /** What the bar was told: bytes, and of how many. */
  shown: Array<[number, number]>
}

/** A download from a server that answers like this. */
async function stage(t: Test, handle: (to: string | null, response: http.ServerResponse) => void): Promise<Stage> {
  const server = http.createServer((request, response) => {
    handle(new URL(request.url ?? '', 'http://here').searchParams.get('to'), response)
  })
  const serverUrl = await urlOf(t, server)
  const shown: Array<[number, number]> = []
  const file = join(t.testdir({}), 'out.zip')
  writeFileSync(file, '')
  const download = {
    client: createClient({ serverUrl, token: null, env: {} }),
    route: '/api/backup',
    query: new URLSearchParams(),
    bar: { update: (bytes: number, of: number) => void shown.push([bytes, of]) } as unknown as ZipDownload['bar'],
    signal: new AbortController().signal,
    what: 'backup',
    nothing: 'Nothing was backed up'
  }
  return { download, file, shown }
}

const zipHeaders = { 'content-type': 'application/zip', 'x-svc-expected-bytes': '9' }
const answerLines = (response: http.ServerResponse, ...lines: object[]): void => {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.end(lines.map(line => `${JSON.stringify(line)}\n`).join(''))
}

t.test('a server with access to the file writes it itself', async t => {
  const { download, file, shown } = await stage(t, (to, response) => {
    writeFileSync(to as string, 'zip')
    const progress = [5, 12].map(bytes => ({ event: 'progress', bytes }))
    answerLines(response, { event: 'begin', expectedBytes: 10 }, ...progress, { event: 'done' })
  })
  await downloadZip(download, file)
  t.equal(readFileSync(file, 'utf8'), 'zip')
  t.same(shown, [
    [5, 10],
    [12, 12]
  ])
})

t.test('a server without access sends the bytes through the socket', async t => {
  const { download, file, shown } = await stage(t, (to, response) => {
    if (to === null) return void response.writeHead(200, zipHeaders).end('zip bytes')
    response.writeHead(503, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: 'not there', code: 'cannot_write_there' }))
  })
  await downloadZip(download, file)
  t.equal(readFileSync(file, 'utf8'), 'zip bytes')
  t.same(shown.at(-1), [9, 9])
})

t.test('an error of the server and a truncated response are refused', async t => {
  const failing = await stage(t, (_, response) => answerLines(response, { event: 'error', error: 'no space' }))
  await t.rejects(downloadZip(failing.download, failing.file), { code: 'backup_failed', message: /no space/ })
  const short = await stage(t, (_, response) => answerLines(response, { event: 'begin', expectedBytes: 10 }))
  await t.rejects(downloadZip(short.download, short.file), { code: 'backup_broken' })
})

t.test('explains errors of disk and connection, and passes on other errors', async t => {
  const named = { what: 'export', nothing: 'Nothing was exported' }
  const error = (code: string): Error => Object.assign(new Error(code), { code })
  t.match(explain(error('ENOSPC'), named), { code: 'no_space', message: /^Nothing was exported/ })
  t.match(explain(error('ECONNRESET'), named), { code: 'export_broken' })
  const other = error('EACCES')
  t.equal(explain(other, named), other)
})
