/* The addresses and secrets of notification targets, by kind. Each fault is the end of a sentence. */
import { parseUrl } from '../base/text.js'
import { type NotificationKind, signingSecretFault } from './setting.js'

/** The address of a target of the kind `email`: a mail server, who sends, and to whom. */
export interface MailAddress {
  url: URL
  from: string
  to: string[]
}

const mailbox = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]+(\.[\w-]+)*$/

/**
 * Reads `smtps://user@host:465?from=svc@example.org&to=ops@example.org,dev@example.org`. Returns what is wrong with it as the end of a
 * sentence, or the address.
 */
export function readMailAddress(text: string): MailAddress | string {
  const url = parseUrl(text)
  if (url === null) {
    return 'an address like smtps://user@mail.example.org?from=svc@example.org&to=ops@example.org is needed'
  }
  if (url.protocol !== 'smtp:' && url.protocol !== 'smtps:') return 'it must begin with smtp:// or smtps://'
  if (url.hostname === '') return 'the mail server is missing'
  if (!isDecodable(url.username)) return 'the user has a % that encodes nothing'
  if (url.password !== '') return 'it must not contain the password, which belongs into "secret"'
  const from = url.searchParams.get('from') ?? ''
  const to = (url.searchParams.get('to') ?? '').split(',').map(each => each.trim())
  const wrong = [from, ...to].find(each => !mailbox.test(each))
  if (wrong !== undefined) return `"${wrong}" is not a mail address: "from" needs one, "to" one or several with commas`
  return { url, from, to }
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** Returns why a target cannot have this address; null if it can. */
export function targetAddressFault(kind: NotificationKind, text: string): string | null {
  if (kind === 'email') {
    const address = readMailAddress(text)
    return typeof address === 'string' ? address : null
  }
  const url = parseUrl(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'an address with http:// or https:// is needed'
  if (kind === 'telegram' && !/^(-?\d+|@\w+)$/.test(url.searchParams.get('chat_id') ?? ''))
    return 'the chat is missing, as in https://api.telegram.org/?chat_id=-1001234'
  if (kind === 'ntfy' && url.pathname.replaceAll('/', '') === '')
    return 'the topic is missing, as in https://ntfy.sh/topic'
  return null
}

/** Returns why a target cannot have this secret; null if it can. */
export function targetSecretFault(kind: NotificationKind, secret: string): string | null {
  if (kind === 'telegram')
    return /^\d+:[\w-]+$/.test(secret) ? null : 'the token of a bot like 123456:ABC-def is needed'
  if (kind === 'ntfy') return /^[\x21-\x7e]*$/.test(secret) ? null : 'an access token of ntfy is needed'
  return kind === 'email' ? null : signingSecretFault(secret)
}
