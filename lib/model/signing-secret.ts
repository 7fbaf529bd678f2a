/**
 * Why a secret cannot sign notifications; null: it can. `whsec_` announces base64 (Standard Webhooks): a text that is not
 * base64 would sign with another key than the one that was meant.
 */
export function signingSecretFault(secret: string): string | null {
  if (!secret.startsWith('whsec_') || /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,4}={0,2})$/.test(secret)) return null
  return 'after "whsec_" base64 is needed; a secret of another form must begin otherwise'
}
