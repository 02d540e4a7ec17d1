// How the server knows a request that it was sent before: by a key of what somebody is about to do, and of how they ask for it.

/// Something that somebody is about to do, as no other will be called. Browsers offer more than this over HTTPS alone.
export function newAct(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/// The same for the same words of one act: sent again, they do nothing twice. Other words are another request.
export function keyOf(act: string, ...words: string[]): string {
  return `${act}-${mixed(words.join("\n"))}`;
}

/// 53 bits of a text, which only have to differ where somebody changes what they send; if they do not, the server refuses the other text, and does
/// not take it for the first one.
function mixed(text: string): string {
  let [one, other] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    one = Math.imul(one ^ text.charCodeAt(at), 2654435761);
    other = Math.imul(other ^ text.charCodeAt(at), 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(other ^ (other >>> 13), 3266489909);
  other = Math.imul(other ^ (other >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return (4294967296 * (2097151 & other) + (one >>> 0)).toString(36);
}
