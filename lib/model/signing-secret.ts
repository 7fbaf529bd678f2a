/**
 * Returns why a secret cannot sign notifications, as part of a sentence; null if it can. `whsec_` announces base64
 * (Standard Webhooks): a text that is not base64 would sign with another key than the intended one.
 */
export function signingSecretFault(secret: string): string | null {
  if (!secret.startsWith('whsec_') || /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,4}={0,2})$/.test(secret))
    return null
  return 'the part after "whsec_" must be base64; a secret of another form must not begin with "whsec_"'
}
