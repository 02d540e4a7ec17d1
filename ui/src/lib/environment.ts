// How an installation's name looks: what must not be taken for another stands out.

export function toneOf(name: string): "red" | "amber" | "grey" {
  if (/\b(prod|production|live)\b/i.test(name)) return "red";
  return /\b(stage|staging|preprod|uat)\b/i.test(name) ? "amber" : "grey";
}
