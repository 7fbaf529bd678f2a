/* Mails in the form in which SMTP sends them. */

/** What a mail says. */
export interface MailText {
  subject: string
  text: string
}

/** Returns the message: header and body, in ASCII with CRLF (RFC 5322, RFC 2045, RFC 2047). */
export function mailMessage(
  { subject, text }: MailText,
  { from, to, id, atMs }: { from: string; to: readonly string[]; id: string; atMs: number }
): string {
  const body = Buffer.from(text, 'utf8')
    .toString('base64')
    .replace(/.{1,76}/g, '$&\r\n')
  return [
    `From: svc <${from}>`,
    `To: ${to.join(', ')}`,
    `Subject: ${encodedWords(subject)}`,
    `Date: ${new Date(atMs).toUTCString().replace('GMT', '+0000')}`,
    `Message-ID: <${id}@${from.split('@')[1]}>`,
    'Auto-Submitted: auto-generated',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    '',
    body.trimEnd()
  ].join('\r\n')
}

/** Number of UTF-8 bytes in an encoded word, so that it has at most 75 characters (RFC 2047 §2). */
const wordBytes = 45
const maxSubjectCharacters = 200

/** Encodes a text of a header by RFC 2047, without cutting a character. */
export function encodedWords(text: string): string {
  const cut = [...text].slice(0, maxSubjectCharacters)
  const words: string[] = ['']
  for (const character of cut) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) <= wordBytes) words[words.length - 1] = longer
    else words.push(character)
  }
  return words.map(word => `=?utf-8?B?${Buffer.from(word, 'utf8').toString('base64')}?=`).join('\r\n ')
}
