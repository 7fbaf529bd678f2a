import { binary, close, closing, continuation, frame, ping, pong, text, type FrameParts } from '../../support/frames.js'

/**
 * What a server MUST do with a client's frames (RFC 6455 §5 to §8): bytes that are sent, and the answer of an endpoint
 * that returns every message. The limits are those of `caseLimits`.
 */
export interface Case {
  section: string
  what: string
  bytes: Buffer
  out: string[]
}

export const caseLimits = { maxMessageBytes: 300, maxFragments: 4 }

const hex = (bytes: string): Buffer => Buffer.from(bytes.replaceAll(' ', ''), 'hex')
const frames = (...parts: FrameParts[]): Buffer => Buffer.concat(parts.map(frame))
const row = (section: string, what: string, bytes: Buffer, ...out: string[]): Case => ({ section, what, bytes, out })

const hello = { opcode: text, payload: 'Hello' }
const first = { opcode: text, payload: 'Hel', fin: false }
const last = { opcode: continuation, payload: 'lo' }
const long = 'x'.repeat(126)
/** The first two of the three bytes of a euro sign. */
const half = hex('e2 82')

export const cases: Case[] = [
  // §5.7, byte for byte.
  row('5.7', 'a single-frame masked text message', hex('81 85 37fa213d 7f9f4d5158'), 'text Hello'),
  row('5.7', 'a masked Pong with a body nobody asked for', hex('8a 85 37fa213d 7f9f4d5158')),
  row('5.7', 'a masked Ping', hex('89 85 37fa213d 7f9f4d5158'), 'pong 48656c6c6f'),

  row('5.1', 'a frame of a client that is not masked', frames({ ...hello, mask: null }), 'close 1002'),
  row('5.1', 'a control frame that is not masked', frames({ opcode: ping, mask: null }), 'close 1002'),
  row('5.3', 'a mask of zeros is a mask', frames({ ...hello, mask: Buffer.alloc(4) }), 'text Hello'),
  row('5.3', 'each frame has a mask of its own', frames(first, { ...last, mask: hex('01020304') }), 'text Hello'),

  ...[4, 2, 1].map(rsv => row('5.2', `reserved bit ${rsv}`, frames({ ...hello, rsv }), 'close 1002')),
  row('5.2', 'a reserved bit in a control frame', frames({ opcode: ping, rsv: 4 }), 'close 1002'),
  ...[3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map(opcode =>
    row('5.2', `reserved opcode ${opcode}`, frames({ opcode }), 'close 1002')
  ),
  row('5.2', 'an empty text', frames({ opcode: text }), 'text '),
  row('5.2', 'an empty binary', frames({ opcode: binary }), 'binary '),
  row(
    '5.2',
    'a length of 125 in seven bits',
    frames({ opcode: text, payload: long.slice(1) }),
    `text ${long.slice(1)}`
  ),
  row('5.2', 'a length of 126 in sixteen', frames({ opcode: text, payload: long }), `text ${long}`),
  row(
    '5.2',
    'a length of 125 in sixteen',
    frames({ opcode: text, payload: long.slice(1), lengthIn: 16 }),
    'close 1002'
  ),
  row('5.2', 'a length of 126 in sixty-four', frames({ opcode: text, payload: long, lengthIn: 64 }), 'close 1002'),
  row(
    '5.2',
    'a length with its first bit set',
    frames({ opcode: text, length: 2n ** 63n, lengthIn: 64 }),
    'close 1002'
  ),

  row('5.4', 'a message of two frames', frames(first, last), 'text Hello'),
  row(
    '5.4',
    'an empty first and an empty last frame',
    frames({ opcode: text, fin: false }, { ...hello, opcode: continuation, fin: false }, { opcode: continuation }),
    'text Hello'
  ),
  row(
    '5.4',
    'binary data in frames',
    frames({ opcode: binary, payload: hex('0102'), fin: false }, { opcode: continuation, payload: hex('03') }),
    'binary 010203'
  ),
  row(
    '5.4',
    'a ping between the frames is answered at once',
    frames(first, { opcode: ping, payload: 'a' }, last),
    'pong 61',
    'text Hello'
  ),
  row('5.4', 'a continuation of nothing', frames(last), 'close 1002'),
  row('5.4', 'a continuation after a message that has ended', frames(first, last, last), 'text Hello', 'close 1002'),
  row('5.4', 'a new message before the end of the last', frames(first, hello), 'close 1002'),
  row(
    '5.4',
    'control frames do not end a message',
    frames(first, { opcode: pong }, { opcode: ping }, hello),
    'pong ',
    'close 1002'
  ),
  row(
    '5.4',
    'one message after another',
    frames(hello, { opcode: binary, payload: hex('ff') }, hello),
    'text Hello',
    'binary ff',
    'text Hello'
  ),

  row('5.5', 'a fragmented ping', frames({ opcode: ping, fin: false }), 'close 1002'),
  row('5.5', 'a fragmented close', frames({ opcode: close, fin: false }), 'close 1002'),
  row(
    '5.5',
    'a ping of 125 bytes',
    frames({ opcode: ping, payload: long.slice(1) }),
    `pong ${Buffer.from(long.slice(1)).toString('hex')}`
  ),
  row('5.5', 'a ping of 126 bytes', frames({ opcode: ping, payload: long }), 'close 1002'),
  row('5.5', 'a close of 126 bytes', frames({ opcode: close, payload: closing(1000, long.slice(2)) }), 'close 1002'),
  row('5.5.1', 'a close without a code', frames({ opcode: close }), 'close'),
  row('5.5.1', 'a close with a code', frames({ opcode: close, payload: closing(1001, 'bye') }), 'close 1001'),
  row(
    '5.5.1',
    'data after a close frame',
    Buffer.concat([frames({ opcode: close, payload: closing(1000) }, hello), hex('ff ff ff')]),
    'close 1000'
  ),
  row(
    '5.5.1',
    'a close in the middle of a message',
    frames(first, { opcode: close, payload: closing(1000) }),
    'close 1000'
  ),
  row('5.5.1', 'a close with half a code', frames({ opcode: close, payload: hex('03') }), 'close 1002'),
  row('5.5.1', 'a reason that is not UTF-8', frames({ opcode: close, payload: closing(1000, half) }), 'close 1007'),
  row('5.5.2', 'an empty ping', frames({ opcode: ping }), 'pong '),
  row(
    '5.5.2',
    'every ping is answered, in order',
    frames({ opcode: ping, payload: '1' }, { opcode: ping, payload: '2' }),
    'pong 31',
    'pong 32'
  ),
  row('5.5.3', 'a pong that answers nothing', frames({ opcode: pong, payload: 'x' }, hello), 'text Hello'),

  ...[1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999].map(code =>
    row('7.4', `close code ${code}`, frames({ opcode: close, payload: closing(code) }), `close ${code}`)
  ),
  ...[0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2999, 5000, 65535].map(code =>
    row('7.4', `close code ${code}`, frames({ opcode: close, payload: closing(code) }), 'close 1002')
  ),

  row('8.1', 'text of one to four bytes a character', frames({ opcode: text, payload: 'aé€😀' }), 'text aé€😀'),
  row('8.1', 'a byte order mark is text', frames({ opcode: text, payload: '\ufeffa' }), 'text \ufeffa'),
  row(
    '8.1',
    'a character cut by frames',
    frames({ opcode: text, payload: half, fin: false }, { opcode: continuation, payload: hex('ac') }),
    'text €'
  ),
  row(
    '8.1',
    'a character cut by frames with a ping between',
    frames({ opcode: text, payload: half, fin: false }, { opcode: ping }, { opcode: continuation, payload: hex('ac') }),
    'pong ',
    'text €'
  ),
  ...[
    ['a lone continuation byte', '80'],
    ['an overlong slash', 'c0af'],
    ['a surrogate', 'eda080'],
    ['beyond the last code point', 'f4908080'],
    ['a byte that never occurs', 'ff'],
    ['a character that does not end', 'e282']
  ].map(([what = '', bytes = '']) => row('8.1', what, frames({ opcode: text, payload: hex(bytes) }), 'close 1007')),
  row(
    '8.1',
    'an invalid byte is detected in its own frame, not at the end of the message',
    frames({ opcode: text, payload: hex('ff'), fin: false }),
    'close 1007'
  ),
  row(
    '8.1',
    'a last frame that ends within a character',
    frames({ ...hello, fin: false }, { opcode: continuation, payload: half }),
    'close 1007'
  ),
  row('8.1', 'binary is not looked at', frames({ opcode: binary, payload: hex('ff80') }), 'binary ff80'),

  row(
    '10.4',
    'a message of the maximum size',
    frames({ opcode: text, payload: 'y'.repeat(300) }),
    `text ${'y'.repeat(300)}`
  ),
  row(
    '10.4',
    'a message that is one byte too large, before its payload',
    frames({ opcode: text, length: 301 }),
    'close 1009'
  ),
  row('10.4', 'a length of terabytes', frames({ opcode: binary, length: 2n ** 62n }), 'close 1009'),
  row(
    '10.4',
    'too many bytes in several frames',
    frames({ opcode: text, payload: 'y'.repeat(200), fin: false }, { opcode: continuation, length: 101 }),
    'close 1009'
  ),
  row(
    '10.4',
    'a message with the maximum number of frames',
    frames(
      ...Array(3)
        .fill({ opcode: text, fin: false })
        .map((one, i) => (i === 0 ? one : { ...one, opcode: continuation })),
      { opcode: continuation, payload: 'a' }
    ),
    'text a'
  ),
  row(
    '10.4',
    'one frame too many',
    frames({ opcode: text, fin: false }, ...Array(4).fill({ opcode: continuation, fin: false })),
    'close 1009'
  )
]
