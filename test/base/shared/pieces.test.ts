import t from 'tap'
import { type PieceSender, sendAllPieces, type UploadState } from '../../../lib/base/shared/pieces.js'

/* test/cli/pack/pieces.test.ts and test/browser/project-pieces.test.ts have the real ways to a server. */

const failure = (code: string, retryAfterSeconds?: number): Error =>
  Object.assign(new Error(code), { code, retryAfterSeconds })

function sender(answers: Array<Error | 'ok'>, more: Partial<PieceSender> = {}) {
  const stop = new AbortController()
  const seen = { progress: [] as number[], waits: [] as number[], finds: 0 }
  let state: UploadState = { uploadId: 'upl_1', offset: 0, pieceBytes: 100 }
  const way: PieceSender = {
    bytes: 1000,
    begin: async () => state,
    async find() {
      seen.finds++
      return state
    },
    async append({ offset, bytes }) {
      const answer = answers.shift() ?? 'ok'
      if (answer !== 'ok') throw answer
      return (state = { ...state, offset: offset + bytes })
    },
    mayPass: () => false,
    onProgress: bytes => void seen.progress.push(bytes),
    sleep: async ms => void seen.waits.push(ms),
    signal: stop.signal,
    ...more
  }
  return { way, seen, stop }
}

t.test('sends the whole file, and tells how far it is', async t => {
  const { way, seen } = sender([])
  t.equal(await sendAllPieces(way), 'upl_1')
  t.strictSame(seen.progress, [0, 100, 300, 700, 1000])
  t.equal(seen.finds, 0, 'an answer says where to continue')
})

t.test('asks for the offset after a failure, and waits as long as the server says', async t => {
  const { way, seen } = sender(['ok', failure('upload_busy', 2), failure('wrong_offset'), 'ok'])
  t.equal(await sendAllPieces(way), 'upl_1')
  t.equal(seen.finds, 2)
  t.strictSame(seen.waits, [2000])
})

t.test('an abort is no failure that passes', async t => {
  const { way, stop } = sender([])
  way.append = async () => {
    stop.abort()
    throw failure('aborted')
  }
  await t.rejects(sendAllPieces(way), { code: 'aborted' })
})

t.test('a server that takes no more uploads is no error', async t => {
  const begin = async (): Promise<UploadState> => {
    throw failure('too_many_uploads')
  }
  t.equal(await sendAllPieces(sender([], { begin }).way), null)
})
