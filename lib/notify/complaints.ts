import type { NotificationKind } from '../model/notification-target.js'

/** A response: its status, and its body if the body was complete in time. */
export interface Answer {
  status: number
  text: string | null
}

/** The end of a complaint about the rate: the same message is accepted later. */
const tooMany = 'too many messages were sent'

/** Error codes documented by the services, as the end of a sentence that says what to do. */
const knownCodes: Partial<Record<NotificationKind, Readonly<Record<number, string>>>> = {
  feishu: {
    9499: 'it cannot read the message',
    11232: tooMany,
    19001: 'the address is not valid',
    19021: 'the signature does not match: check the secret',
    19022: "this server's IP address is not on its allow list",
    19024: 'its keyword is missing: set "svc" as the keyword'
  },
  dingtalk: {
    130101: tooMany,
    300001: 'the address is not valid',
    310000: 'its security settings reject the message: set "svc" as the keyword, or check the secret',
    400013: 'the group was dissolved',
    410100: tooMany
  },
  wecom: {
    45009: tooMany,
    40008: 'it cannot read the message',
    93000: 'the address is not valid',
    93004: 'the robot was stopped',
    93008: 'the robot is not in the group'
  }
}

/**
 * Returns why a target did not accept a message, as a clause without the address, or null if it did. Chat services
 * answer 200 to messages that they do not show, with an error code in the body. The body of a generic receiver is
 * ignored.
 */
export function complaintOf({ status, text }: Answer, kind: NotificationKind): string | null {
  const isGood = status >= 200 && status <= 299
  const inBody = text === null ? null : complaintIn(text, kind, isGood)
  if (isGood) return inBody === null ? null : `answered with ${inBody}`
  return inBody === null ? `answered ${status}` : `answered ${status}: ${inBody}`
}

/** Whether a target complains about the rate of messages only, with whatever status. */
export function isAboutRate(complaint: string): boolean {
  return complaint.endsWith(tooMany) || /^answered \d+: rate_limited$|the Teams status 429$/.test(complaint)
}

function complaintIn(text: string, kind: NotificationKind, isGood: boolean): string | null {
  switch (kind) {
    case 'generic':
      return null
    case 'slack':
      // Slack sends one word with the status: `invalid_blocks`, `no_service`, `channel_is_archived`.
      return !isGood && /^[a-z][a-z_]{2,60}$/.test(text.trim()) ? text.trim() : null
    case 'teams':
      return teamsComplaint(text)
    default:
      return codeComplaint(text, kind)
  }
}

/** Older connectors answer 200 with a sentence. Workflows answer with an error object. */
function teamsComplaint(text: string): string | null {
  const [, status] = /HTTP error (\d{3})/.exec(text) ?? []
  if (status !== undefined) return `the Teams status ${status}`
  const code = (parsed(text)?.['error'] as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : null
}

function codeComplaint(text: string, kind: NotificationKind): string | null {
  const body = parsed(text)
  const code = body?.['errcode'] ?? body?.['code']
  if (typeof code !== 'number' || code === 0) return null
  const meaning = knownCodes[kind]?.[code]
  return `the error code ${code}${meaning === undefined ? '' : `: ${meaning}`}`
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : null
  } catch {
    return null
  }
}
