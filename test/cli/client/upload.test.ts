import t from 'tap'
import { join } from 'node:path'
import { formBody } from '../../../lib/cli/client/upload.js'

t.test('formBody returns a form of known length with its fields before the file', async t => {
  const path = join(t.testdir({ 'a.zip': 'PK-the-bytes' }), 'a.zip')
  const seen: number[] = []
  const body = formBody(
    { projectId: 'proj_1', 'a"b\r\n': 'two\nlines ü' },
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
