import t from 'tap'
import { encodedWords, mailMessage } from '../../../lib/operate/notify/mail.js'

const decoded = (text: string): string =>
  text.replace(/=\?utf-8\?B\?([^?]*)\?=(\r\n )?/g, (_, word: string) => Buffer.from(word, 'base64').toString('utf8'))

t.test('a header of any characters is in encoded words that are not too long', async t => {
  for (const text of ['svc · shop', '漢字'.repeat(40), 'a😀'.repeat(50), 'line\r\nBcc: evil@example.org']) {
    const words = encodedWords(text)
    t.match(words, /^[\x20-\x7e\r\n]*$/)
    t.ok(words.split('\r\n ').every(word => word.length <= 75))
    t.equal(decoded(words), [...text].slice(0, 200).join(''))
  }
})

t.test('a mail is plain text in ASCII, with lines of 76 characters', async t => {
  const given = {
    from: 'svc@example.org',
    to: ['ops@example.org'],
    id: 'msg_1',
    atMs: Date.parse('2030-01-02T03:04:05Z')
  }
  const message = mailMessage({ subject: 'svc · a\r\nBcc: evil', text: 'Ünïcode\r\n.'.repeat(50) }, given)
  const [head = '', body = ''] = message.split('\r\n\r\n')
  t.match(message, /^[\x20-\x7e\r\n]*$/)
  t.notMatch(head, /^Bcc/m, 'no text becomes a header')
  t.match(head, 'Date: Wed, 02 Jan 2030 03:04:05 +0000')
  t.match(head, 'Message-ID: <msg_1@example.org>')
  t.ok(body.split('\r\n').every(line => line.length <= 76))
  t.equal(Buffer.from(body, 'base64').toString('utf8'), 'Ünïcode\r\n.'.repeat(50))
})
